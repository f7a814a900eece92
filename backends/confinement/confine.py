"""Applies the sandbox to the current process: which files stay accessible, and the limits."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .access_policy import AccessPolicy
from .landlock_rules import FileRules, restrict_files
from .resource_limits import limit_process, sane_address_space
from .seccomp_filter import filter_calls

_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store", "/proc", "/sys")
_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/timezone", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/os-release"),
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
)
_SEARCHED = ("LD_LIBRARY_PATH", "LLAMA_CPP_LIB_PATH")
_OURS = ("backends", "models", "kernels")
# Files of GPU drivers in a home folder: compiled kernels and settings.
_DRIVERS = (
    *(".nv", ".triton", ".cache/nvidia", ".cache/mesa_shader_cache", ".cache/mesa_shader_cache_db"),
    *(".cache/radv_builtin_shaders64", ".local/share/vulkan", ".config/vulkan", ".drirc"),
)

_SINK = Path("/dev/null")


def confine(policy: AccessPolicy) -> None:
    """Take away the rights that this process does not need, as far as the system supports it.

    On Linux: network, other processes, other files, core dumps, and memory beyond the machine's;
    elsewhere only some resource limits. Permanent, and inherited by children. Call it before
    threads start.
    """
    bytes_mapped = None if policy.drives_gpu else policy.mapped_bytes()
    limit_process(
        address_space=None if bytes_mapped is None else sane_address_space(bytes_mapped),
        file_size=policy.largest_file,
    )
    if sys.platform != "linux":
        return
    rules = file_rules(policy)
    if rules is None or not restrict_files(rules):
        print("This kernel has no Landlock: files are as open as to the user.", file=sys.stderr)
    if not filter_calls(drives_gpu=policy.drives_gpu):
        print("This kernel filters no system calls: the network is open.", file=sys.stderr)


def file_rules(policy: AccessPolicy) -> FileRules | None:
    """Return the file rules, None if file access cannot be restricted usefully."""
    if policy.drives_gpu:
        outside = _all_but_homes()
        if outside is None:
            return None
        reads = (*outside, *_library_files(), *policy.reads, *policy.writes)
        return FileRules(reads, policy.lists, writes=None, executes=None)
    return FileRules(
        (*_library_files(), *policy.reads),
        policy.lists,
        writes=(*policy.writes, _SINK),
        executes=_interpreter_files(),
    )


def _library_files() -> tuple[Path, ...]:
    """Return the interpreter, its import paths, and the system's libraries."""
    searched = [part for name in _SEARCHED for part in os.environ.get(name, "").split(":") if part]
    package = Path(__file__).resolve().parents[2]
    folders = [*_FOLDERS, *_FILES, *searched, sys.prefix, sys.base_prefix, *sys.path]
    return (*(Path(name) for name in folders if name), *(package / name for name in _OURS))


def _interpreter_files() -> tuple[Path, ...] | None:
    """Return the files executed to start another interpreter; None if they cannot be determined.

    Another interpreter renders the chat template. Some systems start Python through a script.
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


def _all_but_homes() -> tuple[Path, ...] | None:
    """Return everything but home folders; None if no home folder is known.

    For GPU drivers, whose reads are not all known.
    """
    home = Path.home().resolve()
    if home == home.parent:
        return None
    outside: list[Path] = []
    way: Path = home
    # Other homes lie beside a home; the system lies at the root.
    while way.parent != way.parent.parent:
        way = way.parent
    outside += [entry for entry in Path("/").iterdir() if entry != way]
    return (*outside, *(home / name for name in _DRIVERS))
