"""The sandbox of commands that a model runs in a folder of the user."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .landlock_rules import FileRules, landlock_version, restrict_files
from .resource_limits import limit_process
from .seccomp_filter import filter_calls

_COVERS_TRUNCATION, _SCOPES_SIGNALS = 3, 6  # versions of Landlock
_SYSTEM = (
    *("/bin", "/sbin", "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store"),
    *("/gnu/store", "/proc", "/sys", "/etc/alternatives", "/etc/ssl", "/etc/pki"),
    *("/etc/ca-certificates", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
    *("/etc/os-release", "/etc/hosts", "/etc/gitconfig", "/etc/mime.types", "/etc/profile"),
    *("/etc/bash.bashrc", "/etc/profile.d", "/etc/java", "/etc/perl", "/etc/python3"),
    *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/fd"),
)
# Where compilers and interpreters of a user are, without the settings and keys beside them.
_TOOLCHAINS = (
    *(".pyenv", ".rustup", ".cargo/bin", ".cargo/registry", ".nvm", ".volta", ".bun/bin", "go/bin"),
    *(".sdkman/candidates", ".rbenv", ".asdf", ".local/bin", ".local/lib", ".local/share/uv"),
    *(
        ".local/share/mise",
        ".local/share/pipx",
        ".cache/uv",
        ".nix-profile",
        "miniconda3",
        "go/pkg",
    ),
)
_OF_PROGRAMS = ("bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg")


def can_confine_commands() -> bool:
    """Return whether this system can keep a command from the network and from other files."""
    if sys.platform == "darwin":
        return Path("/usr/bin/sandbox-exec").exists()
    return landlock_version() >= _COVERS_TRUNCATION


def confine_command(writes: Sequence[Path], search_path: str) -> None:
    """Confine this process before it becomes a command: only `writes` can be written, and neither
    the network nor other processes nor most of the home folder can be reached.

    Programs in `search_path`, separated as in PATH, stay usable. Linux only; raises OSError if it
    cannot be done.
    """
    limit_process(address_space=None)
    home = Path.home()
    named = [Path(part) for part in search_path.split(":") if part.startswith("/")]
    places = [place for place in named if not home.is_relative_to(place)]
    beside = {place.parent for place in places if place.name in ("bin", "sbin")}
    programs = [place / name for place in beside for name in _OF_PROGRAMS]
    tools = [home / name for name in _TOOLCHAINS]
    system = [Path(name) for name in _SYSTEM]
    reads = (*writes, *system, *places, *programs, *tools)
    rules = FileRules(
        reads, writes=(*writes, Path("/dev/null"), Path("/dev/zero")), executes=None, links=True
    )
    scoped = landlock_version() >= _SCOPES_SIGNALS
    if not restrict_files(rules) or not filter_calls(runs_commands=True, scopes_signals=scoped):
        raise OSError("this kernel has no Landlock or filters no system calls")


def sandbox_profile(writes: Sequence[Path]) -> str:
    """Return the profile for `sandbox-exec` of macOS with the same limits; not yet run there."""
    own = " ".join(f"(subpath {_quoted(path)})" for path in writes)
    home = Path.home()
    tools = " ".join(f"(subpath {_quoted(home / name)})" for name in _TOOLCHAINS)
    return (
        "(version 1)(allow default)(deny network*)(deny appleevent-send)(deny file-write*)"
        f'(allow file-write* {own} (literal "/dev/null") (literal "/dev/zero"))'
        f"(deny file-read-data (subpath {_quoted(home)}))"
        f"(allow file-read-data {own} {tools})"
        "(deny signal)(allow signal (target same-sandbox))"
    )


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
