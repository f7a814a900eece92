"""Repair commands for an installation, in the syntax of this machine's shell."""

from __future__ import annotations

import shlex
from pathlib import Path

from ingle.backends.hardware.machine import Software

LLAMA_CPP = "llama-cpp-python"
_PACKAGE_MANAGERS = (
    ("Ubuntu", "sudo ubuntu-drivers install"),
    ("Mint", "sudo ubuntu-drivers install"),
    ("Pop!_OS", "sudo apt install system76-driver-nvidia"),
    ("Debian", "sudo apt install nvidia-driver"),
    ("Fedora", "sudo dnf install akmod-nvidia"),
    ("Arch", "sudo pacman -Syu nvidia-open"),
    ("Manjaro", "sudo mhwd -a pci nonfree 0300"),
    ("openSUSE", "sudo zypper install-new-recommends --repo NVIDIA"),
)


def rebuild_llama_cpp(software: Software, option: str) -> str:
    """Return a command that rebuilds llama.cpp with a CMake option such as "GGML_CUDA", in this
    environment.
    """
    build = software.llama_cpp
    requirement = f"{LLAMA_CPP}=={build.version}" if build and build.version else LLAMA_CPP
    if software.installer == "uv":
        flags = f"--no-cache --reinstall-package {LLAMA_CPP} --no-binary {LLAMA_CPP}"
    else:
        flags = f"--no-cache-dir --force-reinstall --no-deps --no-binary {LLAMA_CPP}"
    install = f"{installer(software)} {flags} {requirement}"
    if software.system == "Windows":
        return f'$env:CMAKE_ARGS="-D{option}=on"; {install}'
    return f'CMAKE_ARGS="-D{option}=on" {install}'


def reinstall_llama_cpp(software: Software) -> str:
    """Return a command that reinstalls llama.cpp."""
    if software.installer == "uv":
        return f"{installer(software)} --no-cache --reinstall-package {LLAMA_CPP} {LLAMA_CPP}"
    return f"{installer(software)} --no-cache-dir --force-reinstall --no-deps {LLAMA_CPP}"


def install_cuda_extra(software: Software) -> str:
    """Return a command that installs what the CUDA engine needs."""
    origin = f"-e {_quoted(software.checkout + '[cuda]')}" if software.checkout else "'ingle[cuda]'"
    return f"{installer(software)} {origin}"


def reinstall_torch(software: Software) -> str:
    """Return a command in which uv selects the PyTorch build for this machine's driver."""
    executable = _quoted(_short(software.executable))
    choice = "--torch-backend=auto --reinstall-package torch 'torch>=2.13,<2.14'"
    return f"uv pip install --python {executable} {choice}"


def installer(software: Software) -> str:
    """Return the start of a command that installs packages where this ingle runs."""
    executable = _quoted(_short(software.executable or "python3"))
    if software.system == "Windows" and software.installer == "pip":
        return f"& {executable} -m pip install"
    if software.installer == "uv":
        return f"uv pip install --python {executable}"
    return f"{executable} -m pip install"


def install_nvidia_driver(software: Software) -> list[str]:
    """Return the distribution's commands; none for an unknown distribution."""
    return [command for name, command in _PACKAGE_MANAGERS if name in software.release][:1]


def _short(path: str) -> str:
    """Return the path with the home folder abbreviated as in a shell."""
    home = str(Path.home())
    return "~" + path.removeprefix(home) if path.startswith(home + "/") else path


def _quoted(path: str) -> str:
    """Quote a path if a shell would misread it; a leading `~/` stays unquoted."""
    if path.startswith("~/"):
        return "~/" + shlex.quote(path[2:])
    return shlex.quote(path)
