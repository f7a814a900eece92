"""Reads operating system, Python and installed engines, without loading any engine."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..base.child_process import find_module
from .machine import LlamaBuild, Software, TorchBuild
from .text_files import read_text

_BUILD_TOOLS = ("cmake", "nvcc", "glslc")


def read_software(llama_cpp: LlamaBuild | None = None, import_path: Sequence[str] = ()) -> Software:
    """Read the system; `llama_cpp` comes from a `Probe`.

    PyTorch is looked for in the folders of `import_path` too.
    """
    root, torch = Path("/"), find_module("torch", import_path)
    build = None
    if torch is not None and torch.origin is not None:
        # Its version file; importing it would take seconds.
        build = parse_torch_version(read_text(Path(torch.origin).parent / "version.py"))
    return Software(
        system=platform.system(),
        release=_release(root),
        python=platform.python_version(),
        ingle=installed_version("ingle"),
        wsl=is_wsl(root),
        container=container_of(root, os.environ),
        tools=[name for name in _BUILD_TOOLS if shutil.which(name)],
        torch=build,
        llama_cpp=llama_cpp,
    )


def parse_torch_version(text: str) -> TorchBuild:
    """Parse PyTorch's `version.py`, which names the CUDA it was built for."""
    found = re.search(r"__version__ = '([^']*)'", text)
    cuda = re.search(r"^cuda(?:: [^=]*)? = '([^']*)'", text, re.MULTILINE)
    return TorchBuild(version=found[1] if found else "", cuda=cuda[1] if cuda else "")


def is_wsl(root: Path) -> bool:
    """Return whether this Linux runs under Windows (WSL)."""
    return "microsoft" in read_text(root / "proc/sys/kernel/osrelease").lower()


def container_of(root: Path, environ: Mapping[str, str]) -> str:
    """Return the name of the container runtime, "" for none."""
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "kubernetes"
    return environ.get("container", "")


def parse_os_release(text: str) -> str:
    """Return the name of a distribution, such as "Ubuntu 24.04.3 LTS"."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)"?', text, re.MULTILINE)
    return found[1] if found else ""


def _release(root: Path) -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    if sys.platform == "win32":
        return f"Windows {platform.release()} {platform.version()}"
    name = parse_os_release(read_text(root / "etc/os-release"))
    return f"{name}, {platform.release()}" if name else platform.release()


def installed_version(package: str) -> str:
    """Return the version; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
