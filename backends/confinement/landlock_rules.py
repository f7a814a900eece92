"""Restricts this process to the named files with Landlock.

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

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
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
_MAKE_LINK = 1 << 12
# No links, devices, sockets or pipes: another process could open them later.
_WRITES = _WRITE_FILE | _REMOVE | _MAKE_FOLDER | _MAKE_FILE
_ALL_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_MOVE = 1 << 13  # from one folder to another
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_TCP = 0b11
_OUTSIDE_SOCKETS_AND_SIGNALS = 0b11


@dataclass(frozen=True, slots=True)
class FileRules:
    """Files and folders, with their contents, that remain accessible; missing ones are skipped.

    Those in `lists` can only be listed. `writes` and `executes` None leave these rights
    unrestricted; `reads` always restricts. With `links`, symbolic links can be made in `writes`,
    with `tcp` connections.
    """

    reads: tuple[Path, ...]
    lists: tuple[Path, ...] = ()
    writes: tuple[Path, ...] | None = ()
    executes: tuple[Path, ...] | None = ()
    links: bool = False
    tcp: bool = False


def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 without Landlock."""
    if sys.platform != "linux":
        return 0
    found = _libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, int(found))


def restrict_files(rules: FileRules) -> bool:
    """Restrict this process and its children to the files that `rules` name.

    They also cannot signal, trace, or reach through abstract sockets any earlier process. Open
    files stay open. Returns False if the kernel has no Landlock. Call it before threads start;
    raises OSError if the kernel has Landlock and it fails.
    """
    version = landlock_version()
    if version == 0:
        return False
    handled = _handled(rules, version)
    ruleset = _create(handled, version, tcp=rules.tcp)
    try:
        _allow(ruleset, rules.reads, (_READ_FILE | _READ_FOLDER) & handled)
        _allow(ruleset, rules.lists, _READ_FOLDER)
        writing = _WRITES | _TRUNCATE | _MOVE | (_MAKE_LINK if rules.links else 0)
        _allow(ruleset, rules.writes or (), writing & handled)
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


def _create(handled: int, version: int, *, tcp: bool) -> int:
    attributes = struct.pack("=Q", handled)
    if version >= 4:
        attributes += struct.pack("=Q", 0 if tcp else _TCP)
    if version >= 6:
        attributes += struct.pack("=Q", _OUTSIDE_SOCKETS_AND_SIGNALS)
    size = ctypes.c_size_t(len(attributes))
    return _check(_libc().syscall(_CREATE, attributes, size, ctypes.c_uint32(0)))


def _allow(ruleset: int, paths: Iterable[Path], rights: int) -> None:
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # a missing file needs no rule
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
