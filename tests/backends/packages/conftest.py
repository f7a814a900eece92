"""A folder of tiny wheels, and engines that consist of them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.packages import engine_packages, engine_store
from ingle.backends.packages.engine_packages import EnginePackages
from ingle.backends.packages.engine_store import EngineStore

MakeWheel = Callable[..., Path]
MakePackages = Callable[..., EnginePackages]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture
def make_wheel(wheels: Path) -> MakeWheel:
    """Writes a wheel of one module into the folder `wheels`."""

    def make(name: str, version: str = "1.0", code: str = "") -> Path:
        path = wheels / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        files = {
            f"{name}/__init__.py": code,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
        with zipfile.ZipFile(path, "w") as archive:
            for file, text in files.items():
                archive.writestr(file, text)
            archive.writestr(f"{info}/RECORD", record)
        return path

    return make


@pytest.fixture
def make_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePackages:
    """Makes the engine `toy` of pinned requirements, the only one there is."""

    def make(*requirements: str, **changes: object) -> EnginePackages:
        pinned = tmp_path / f"toy-{len(list(tmp_path.glob('toy-*.txt')))}.txt"
        pinned.write_text("".join(f"{line}\n" for line in requirements))
        fields = {"download_bytes": 1, **changes}
        toy = EnginePackages(
            name="toy",
            engine="toy",
            title="the toy engine",
            distribution="toylib",
            module="toylib",
            requirements=pinned.name,
            **fields,  # pyright: ignore[reportArgumentType]
        )
        monkeypatch.setattr(engine_packages, "_FOLDER", tmp_path)
        monkeypatch.setattr(engine_store, "all_engine_packages", lambda: {"toy": toy})
        return toy

    return make


@pytest.fixture
def store(tmp_path: Path) -> EngineStore:
    return EngineStore(tmp_path / "engines")
