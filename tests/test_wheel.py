"""The contents of a built wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE")
FOLDERS = ("backends", "daemon", "kernels", "models", "tui")


@pytest.mark.slow
def test_wheel_contains_kernels_and_detector_data(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "cubins")
        shutil.copytree(ROOT / folder, checkout / folder, ignore=ignored)
    for name in NEEDED:
        shutil.copy(ROOT / name, checkout)
    cubins = checkout / "kernels" / "cubins"
    cubins.mkdir()
    for name in ("q4_k-sm_90-0123.cubin", "attend-sm_90-0123.json", "manifest.json"):
        (cubins / name).write_bytes(b"made by scripts/build-kernels")
    command = [sys.executable, "-P", "-m", "pip", "wheel", "--quiet", "--no-deps"]
    options = ["--no-build-isolation", "--no-index", "--wheel-dir", tmp_path, checkout]
    subprocess.run([*command, *options], check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("ingle-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {f"ingle/kernels/csrc/{path.name}" for path in (ROOT / "kernels/csrc").iterdir()}
    assert sources | {f"ingle/kernels/cubins/{path.name}" for path in cubins.iterdir()} <= names
    data = (ROOT / "daemon/routing/detectors/data").iterdir()
    assert {f"ingle/daemon/routing/detectors/data/{path.name}" for path in data} <= names
    assert any(name.endswith(".dist-info/licenses/NOTICE") for name in names)
    assert not {n for n in names if n.startswith(("tests/", "bench/", "ingle/backends/testing/"))}
