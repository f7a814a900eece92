"""Takes all files but the named ones away from this process: Landlock.

Source: landlock(7), and linux/landlock.h for the numbers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every processor
_VERSION = 1
_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_READ_FILE = 1 << 2
_READ_FOLDER = 1 << 3
_TRUNCATE = 1 << 14
_REMOVE = 1 << 4 | 1 << 5
_MAKE_FOLDER, _MAKE_FILE = 1 << 7, 1 << 8
# No links, devices, sockets or pipes: whoever opens those later may be somebody else.
_WRITES = _WRITE_FILE | _REMOVE | _MAKE_FOLDER | _MAKE_FILE
_ALL_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_MOVE = 1 << 13  # from one folder to another
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_TCP = 0b11
_OUTSIDE_SOCKETS_AND_SIGNALS = 0b11


@dataclass(frozen=True, slots=True)
class FileRules:
    """The files and folders, with all in them, that stay; those that are not there are left out.

    What is in `lists` can be seen by name only. `writes` and `executes` None leave these rights as
    they were; `reads` always bounds.
    """

    reads: tuple[Path, ...]
    lists: tuple[Path, ...] = ()
    writes: tuple[Path, ...] | None = ()
    executes: tuple[Path, ...] | None = ()


def landlock_version() -> int:
    """What this kernel knows of Landlock; 0 where it has none."""
    if sys.platform != "linux":
        return 0
    found = _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, int(found))


def restrict_files(rules: FileRules) -> bool:
    """From now on this process and its children open nothing but what `rules` name.

    Nor do they signal, trace, or meet on abstract sockets, processes from before. What is open
    already stays. False where the kernel has no Landlock. To be called before there are other
    threads; raises OSError where the kernel has it and yet fails.
    """
    version = landlock_version()
    if version == 0:
        return False
    handled = _handled(rules, version)
    ruleset = _create(handled, version)
    try:
        _allow(ruleset, rules.reads, (_READ_FILE | _READ_FOLDER) & handled)
        _allow(ruleset, rules.lists, _READ_FOLDER)
        _allow(ruleset, rules.writes or (), (_WRITES | _TRUNCATE | _MOVE) & handled)
        _allow(ruleset, rules.executes or (), _EXECUTE & handled)
        _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _check(_libc().syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)
    return True


def _handled(rules: FileRules, version: int) -> int:
    handled = _READ_FILE | _READ_FOLDER
    if rules.executes is not None:
        handled |= _EXECUTE
    if rules.writes is not None:
        handled |= _ALL_WRITES
        handled |= _MOVE if version >= 2 else 0
        handled |= _TRUNCATE if version >= 3 else 0
    return handled


def _create(handled: int, version: int) -> int:
    attributes = struct.pack("=Q", handled)
    if version >= 4:
        attributes += struct.pack("=Q", _TCP)
    if version >= 6:
        attributes += struct.pack("=Q", _OUTSIDE_SOCKETS_AND_SIGNALS)
    size = ctypes.c_size_t(len(attributes))
    return _check(_libc().syscall(_CREATE, attributes, size, ctypes.c_uint32(0)))


def _allow(ruleset: int, paths: Iterable[Path], rights: int) -> None:
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is not there needs no rule
        try:
            folder = stat.S_ISDIR(os.fstat(place).st_mode)
            allowed = rights if folder else rights & _FOR_FILES
            rule = struct.pack("=Qi", allowed, place)
            if allowed:
                beneath = ctypes.c_int(_BENEATH)
                _check(_libc().syscall(_ADD_RULE, ruleset, beneath, rule, ctypes.c_uint32(0)))
        finally:
            os.close(place)


def _check(result: int) -> int:
    if result < 0:
        failed = ctypes.get_errno()
        raise OSError(failed, f"Landlock: {errno.errorcode.get(failed, failed)}")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
