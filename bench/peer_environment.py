"""Throw-away environments for peers, in the user's cache: none is ever a dependency of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import llama_cpp
import platformdirs

XLLAMACPP = "2026.10.11549"
_DONE = "installed"


def xllamacpp_python() -> Path:
    """The interpreter of an environment with the prebuilt wheel of xllamacpp."""
    return _environment(f"xllamacpp-{XLLAMACPP}", [f"xllamacpp=={XLLAMACPP}"])


def llama_cpp_python_server() -> tuple[Path, Path]:
    """Return an interpreter with the server's requirements, and a folder with our build of the
    library.

    So both run the same machine code, and nothing is compiled twice.
    """
    needs = [
        need.split(";")[0].strip()
        for need in requires("llama-cpp-python") or []
        if ";" not in need or 'extra == "server"' in need
    ]
    python = _environment("llama-cpp-python-server", needs)
    library = python.parents[1] / "library"
    library.mkdir(exist_ok=True)
    link = library / "llama_cpp"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(llama_cpp.__file__).parent, target_is_directory=True)
    return python, library


def python_program(package: str, version: str, *more: str, python: str = sys.executable) -> Path:
    """Return the folder with the programs of a package, installed with its requirements.

    `python` is the interpreter to run it, or its version; raises `FileNotFoundError` if there is
    none.
    """
    packages = [f"{package}=={version}", *more]
    return _environment(f"{package}-{version}", packages, find_python(python)).parent


def find_python(wanted: str) -> str:
    """The interpreter of this path, or of this version on PATH."""
    found = shutil.which(wanted) or shutil.which(f"python{wanted}")
    if found is None:
        raise FileNotFoundError(f"it needs Python {wanted}, and there is no python{wanted} on PATH")
    return found


def npm_program(package: str, version: str, program: str) -> Path:
    """A program of a package of npm's."""
    folder = platformdirs.user_cache_path("ingle") / "bench" / f"{program}-{version}"
    if not (folder / _DONE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"Installing {package} into {folder} …", file=sys.stderr)
        command = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(folder)]
        subprocess.run([*command, f"{package}@{version}"], check=True, stdout=sys.stderr)
        (folder / _DONE).touch()
    return folder / "node_modules" / ".bin" / program


def _environment(name: str, packages: list[str], base: str = sys.executable) -> Path:
    folder = platformdirs.user_cache_path("ingle") / "bench" / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / _DONE).exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"Installing {name} into {folder} …", file=sys.stderr)
        for command in _install(folder, python, packages, base):
            subprocess.run(command, check=True, stdout=sys.stderr)
        (folder / _DONE).touch()
    return python


def _install(folder: Path, python: Path, packages: list[str], base: str) -> list[list[str]]:
    uv = shutil.which("uv")
    if uv is None:
        return [
            [base, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", *packages],
        ]
    return [
        [uv, "venv", "--no-config", "--quiet", "--python", base, str(folder)],
        # Our own pins, which uv would find in the folder we are in, are not theirs.
        [uv, "pip", "install", "--no-config", "--quiet", "--python", str(python), *packages],
    ]
