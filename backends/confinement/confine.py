"""Applies the sandbox to the current process: which files stay accessible, and the limits."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .access_policy import AccessPolicy
from .denied_call_reporter import DeniedCallReporter
from .gpu_files import GPUFiles, gpu_files
from .landlock_rules import FileRules, restrict_files
from .resource_limits import limit_process, sane_address_space
from .seccomp_filter import filter_calls

_FOLDERS = (
    *("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/local/lib", "/usr/local/lib64"),
    *("/usr/share", "/usr/local/share", "/usr/include", "/lib", "/lib32", "/lib64", "/opt"),
    *("/nix/store", "/gnu/store", "/proc", "/sys"),
)
# Only for compilers of a GPU's kernels, and where Python itself is started by a script.
_PROGRAMS = ("/bin", "/sbin", "/usr", "/etc/alternatives")
_FILES = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/timezone", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/os-release"),
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"),
)
_SEARCHED = ("LD_LIBRARY_PATH", "LLAMA_CPP_LIB_PATH")
_OURS = ("backends", "models", "kernels")
_OF_PREFIX = ("lib", "lib32", "lib64", "share", "include", "pyvenv.cfg")

_SINK = Path("/dev/null")


def confine(policy: AccessPolicy, reporter: DeniedCallReporter | None = None) -> None:
    """Take away the rights that this process does not need, as far as the system supports it.

    On Linux: network, other processes, other files, core dumps, and memory beyond the machine's;
    elsewhere only some resource limits. Permanent, and inherited by children. `reporter` names the
    system calls that are denied. Call it before threads start.
    """
    bytes_mapped = None if policy.drives_gpu else policy.mapped_bytes()
    limit_process(
        address_space=None if bytes_mapped is None else sane_address_space(bytes_mapped),
        file_size=policy.largest_file,
    )
    if sys.platform != "linux":
        return
    if not restrict_files(file_rules(policy)):
        print("This kernel has no Landlock: files are as open as to the user.", file=sys.stderr)
    if policy.meets_others:
        return
    if not filter_calls(drives_gpu=policy.drives_gpu, reporter=reporter):
        print("This kernel filters no system calls: the network is open.", file=sys.stderr)


def file_rules(policy: AccessPolicy) -> FileRules:
    """Return the file rules; programs are not restricted with a GPU, whose kernels they compile."""
    executes = None if policy.drives_gpu else _interpreter_files()
    # To execute a file includes to read it.
    programs = executes or tuple(map(Path, (*_PROGRAMS, sys.base_prefix)))
    devices = gpu_files() if policy.drives_gpu else GPUFiles()
    return FileRules(
        (*_library_files(), *programs, *devices.reads, *devices.writes, *policy.reads),
        policy.lists,
        writes=(*policy.writes, *devices.writes, _SINK),
        executes=executes,
        tcp=policy.meets_others,
    )


def program_loaders() -> list[Path]:
    """Return the dynamic loaders of this process; raises OSError if they cannot be determined."""
    mapped = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    names = {line.split(maxsplit=5)[-1] for line in mapped if "/" in line}
    return [Path(name) for name in sorted(names) if Path(name).name.startswith("ld")]


def _library_files() -> tuple[Path, ...]:
    """Return the interpreter's libraries, its import paths, and the system's libraries."""
    searched = [part for name in _SEARCHED for part in os.environ.get(name, "").split(":") if part]
    package = Path(__file__).resolve().parents[2]
    prefixes = [Path(prefix, name) for prefix in _prefixes() for name in _OF_PREFIX]
    folders = [*_FOLDERS, *_FILES, *searched, *sys.path]
    ours = (package / name for name in _OURS)
    return (*(Path(name) for name in folders if name), *prefixes, *ours)


def _prefixes() -> set[str]:
    return {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}


def _interpreter_files() -> tuple[Path, ...] | None:
    """Return the files executed to start another interpreter; None if they cannot be determined.

    Another interpreter renders the chat template. Some systems start Python through a script.
    """
    program = Path(sys.executable).resolve()
    try:
        if Path("/proc/self/exe").readlink() != program:
            return None
        loaders = program_loaders()
    except OSError:
        return None
    return (program, *loaders) if loaders else None
