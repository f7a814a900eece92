"""Which files of a Linux system a process needs that computes: libraries, devices, the clock."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store", "/proc", "/sys")
_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/timezone", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/os-release"),
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
)
_SEARCHED = ("LD_LIBRARY_PATH", "LLAMA_CPP_LIB_PATH")
_OURS = ("backends", "models", "kernels")
# What GPU drivers keep in a home: compiled kernels and settings.
_DRIVERS = (
    *(".nv", ".triton", ".cache/nvidia", ".cache/mesa_shader_cache", ".cache/mesa_shader_cache_db"),
    *(".cache/radv_builtin_shaders64", ".local/share/vulkan", ".config/vulkan", ".drirc"),
)

SINK = Path("/dev/null")


def library_files() -> tuple[Path, ...]:
    """The interpreter, all it can import, and the system's libraries."""
    searched = [part for name in _SEARCHED for part in os.environ.get(name, "").split(":") if part]
    package = Path(__file__).resolve().parents[2]
    folders = [*_FOLDERS, *_FILES, *searched, sys.prefix, sys.base_prefix, *sys.path]
    return (*(Path(name) for name in folders if name), *(package / name for name in _OURS))


def interpreter_files() -> tuple[Path, ...] | None:
    """What the kernel executes to start another interpreter; None where that is not plain.

    Another one renders the chat template. Some systems start Python through a script.
    """
    program = Path(sys.executable).resolve()
    try:
        if Path("/proc/self/exe").readlink() != program:
            return None
        mapped = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return None
    names = {line.split(maxsplit=5)[-1] for line in mapped if "/" in line}
    loaders = [Path(name) for name in names if Path(name).name.startswith("ld")]
    return (program, *loaders) if loaders else None


def all_but_homes() -> tuple[Path, ...] | None:
    """Everything but what people keep in their homes; None where nobody has one.

    For drivers of GPUs, of which nobody knows all that they read.
    """
    home = Path.home().resolve()
    if home == home.parent:
        return None
    outside: list[Path] = []
    way: Path = home
    # Beside a home lie other homes; at the root lies the system.
    while way.parent != way.parent.parent:
        way = way.parent
    outside += [entry for entry in Path("/").iterdir() if entry != way]
    return (*outside, *(home / name for name in _DRIVERS))
