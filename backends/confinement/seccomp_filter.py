"""Limits system calls with a seccomp filter: no network, no other processes, no file attributes.

Source: seccomp(2), and linux/filter.h for the instructions.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from .denied_call_reporter import DeniedCallReporter
from .system_calls import ALLOWED, ATTRIBUTES, CHECKED, DENIED, OF_CONNECTIONS

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
_ERROR = 0x00050000
_DENY = _ERROR | errno.EACCES
_UNKNOWN = _ERROR | errno.ENOSYS
_ABSENT = _ERROR | errno.ENOENT
_NOTIFY = 0x7FC00000
_IGNORE = _ERROR  # the call returns 0 and does nothing
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
# Later calls fail as on an older kernel, so that libraries use those that they replace.
_NEWER_CALLS = 451

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_ALL_THREADS, _NEW_LISTENER = 1 << 0, 1 << 3
_NETLINK: Final = 16
# CLONE_NEWTIME is no flag of clone: its bit belongs to the signal at the end.
_CLONE_NEW = 0x7E020000
# TIOCSTI and TIOCLINUX type into a terminal; FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR change
# attributes of a file that is open for reading.
_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x401C5820)
# F_SETOWN, F_SETSIG and F_SETOWN_EX have the kernel send signals.
_FCNTLS = (8, 10, 15)
_PR_SET_DUMPABLE, _PR_SET_PTRACER = 4, 0x59616D61

# AUDIT_ARCH_* of linux/audit.h, which the kernel passes to a filter beside the call's number.
_X86_64 = 0xC000003E
_AARCH64 = 0xC00000B7
_COLUMNS = {_X86_64: 0, _AARCH64: 1}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    kept: object


def filter_calls(
    *,
    drives_gpu: bool = False,
    runs_commands: bool = False,
    scopes_signals: bool = False,
    is_connected: bool = False,
    reporter: DeniedCallReporter | None = None,
) -> bool:
    """Limit the system calls of this process and its children.

    Without a GPU only calls that workers need are possible, and no sockets. With one, all are but
    those that reach the network, other processes, attributes of files and rare parts of the kernel:
    drivers may make local sockets (Unix, netlink), which reach no other process. A process that
    runs a user's commands has the rights of one with a GPU, and changes of attributes seem to
    succeed; signals are left to Landlock with `scopes_signals`. Denied calls fail with EACCES, and
    `reporter` names them. Returns False if the system has no such filters. Call it before threads
    start, unless the process `is_connected`: then it is for all its threads, and what they have
    connected stays so.
    """
    known = {"x86_64": _X86_64, "AMD64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}
    architecture = known.get(platform.machine())
    if sys.platform != "linux" or architecture is None:
        return False
    processes = (os.getpid(), os.getppid())
    program = filter_program(
        architecture,
        processes=processes,
        drives_gpu=drives_gpu,
        runs_commands=runs_commands,
        scopes_signals=scopes_signals,
        is_connected=is_connected,
    )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    if reporter is not None:
        number = ctypes.c_long(ALLOWED["seccomp"][_COLUMNS[architecture]] or 0)
        notifying = _program(_notify(program))
        arguments = (ctypes.c_ulong(_MODE_FILTER - 1), ctypes.c_ulong(_NEW_LISTENER))
        listener = libc.syscall(number, *arguments, ctypes.byref(notifying))
        if listener >= 0:
            reporter.attach(listener)
            return True
        # Another program listens already, or the kernel is too old to report.
    if is_connected:
        number = ctypes.c_long(ALLOWED["seccomp"][_COLUMNS[architecture]] or 0)
        arguments = (ctypes.c_ulong(_MODE_FILTER - 1), ctypes.c_ulong(_ALL_THREADS))
        return libc.syscall(number, *arguments, ctypes.byref(_program(program))) == 0
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(_program(program)), 0, 0) != 0:
        failed = ctypes.get_errno()
        if failed in (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES):
            return False  # a kernel, or a container, without them
        raise OSError(failed, os.strerror(failed))
    return True


def _program(code: bytes) -> _Program:
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    program.kept = buffer  # referred to by its address only
    return program


def _notify(program: bytes) -> bytes:
    """Return the program with denied calls passed to a supervisor, which has them fail."""
    denied = {_step(_RETURN, _DENY), _step(_RETURN, _ABSENT)}
    steps = (program[start : start + 8] for start in range(0, len(program), 8))
    return b"".join(_step(_RETURN, _NOTIFY) if step in denied else step for step in steps)


def filter_program(
    architecture: int,
    *,
    processes: tuple[int, int],
    drives_gpu: bool = False,
    runs_commands: bool = False,
    scopes_signals: bool = False,
    is_connected: bool = False,
) -> bytes:
    """Return the filter program as the kernel reads it, 8 bytes per instruction.

    `architecture` is an AUDIT_ARCH number, `processes` are the ids of the process and its parent;
    raises KeyError for an unknown architecture.
    """
    column = _COLUMNS[architecture]
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_IF_EQUAL, architecture, 1, 0),
        _step(_RETURN, _DENY),  # calls as a 32-bit program makes them
        _step(_LOAD, _NUMBER),
    ]
    if architecture == _X86_64:  # it has a second set of numbers
        code += [_step(_IF_AT_LEAST, _X32, 0, 1), _step(_RETURN, _DENY)]
    lenient = drives_gpu or runs_commands
    rules = _rules(*processes, drives_gpu=lenient)
    if runs_commands:
        rules["utimensat"] = _only_null(1, _IGNORE)
    if scopes_signals:
        rules |= {"kill": _SCOPED, "tgkill": _SCOPED}
    for name, rule in rules.items():
        number = CHECKED[name][column]
        assert number is not None
        code += [_step(_IF_EQUAL, number, 0, len(rule)), *rule]
    table, outcome = (DENIED, _DENY) if lenient else (ALLOWED, _ALLOW)
    if is_connected and not lenient:
        table = {**table, **OF_CONNECTIONS}
    for name, numbers in table.items():
        if (number := numbers[column]) is not None:
            ignored = runs_commands and name in ATTRIBUTES
            result = _IGNORE if ignored else outcome
            code += [_step(_IF_EQUAL, number, 0, 1), _step(_RETURN, result)]
    if lenient:
        return b"".join([*code, _step(_RETURN, _ALLOW)])
    newer = [_step(_IF_AT_LEAST, _NEWER_CALLS, 0, 1), _step(_RETURN, _UNKNOWN)]
    return b"".join([*code, *newer, _step(_RETURN, _DENY)])


def _rules(own: int, parent: int, *, drives_gpu: bool) -> dict[str, list[bytes]]:
    """Return the instructions for calls of `CHECKED`, each of which ends the program."""
    rules = {
        "ioctl": _unless(1, _IOCTLS),
        "fcntl": _unless(1, _FCNTLS),
        "prctl": [
            _load(0),
            *_case(_PR_SET_PTRACER, [_step(_RETURN, _DENY)]),
            *_case(_PR_SET_DUMPABLE, _only(1, [0])),
            _step(_RETURN, _ALLOW),
        ],
        "clone": [_load(0), _step(_IF_ANY_BIT, _CLONE_NEW, 0, 1), *_DENY_ELSE_ALLOW],
        # Its flags are in memory, which a filter cannot read; the C library uses clone instead.
        "clone3": [_step(_RETURN, _UNKNOWN)],
        # Not a group, all processes or the daemon; Landlock denies all outside (Linux 6.12).
        "kill": [
            _load(0),
            *_case(parent, [_step(_RETURN, _ERROR | errno.EPERM)]),
            _step(_IF_EQUAL, 0, 1, 0),
            _step(_IF_AT_LEAST, 1 << 31, 0, 1),
            *_DENY_ELSE_ALLOW,
        ],
        "tgkill": _only(0, [own]),
        # Threads are named by numbers that are not known yet: OpenMP would end the process with an
        # error if it could not place its own.
        "sched_setaffinity": _only(0, [0, own], otherwise=_IGNORE),
        # By a descriptor, which only an accessible file has: the KV store's times of use.
        "utimensat": _only_null(1),
    }
    for name in ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        rules[name] = _only(0, [0, own])
    # PRIO_PROCESS and IOPRIO_WHO_PROCESS
    for name, process in (("setpriority", 0), ("ioprio_set", 1)):
        rules[name] = [_load(0), *_case(process, _only(1, [0, own])), _step(_RETURN, _DENY)]
    if drives_gpu:
        rules["socket"] = _only(0, [socket.AF_UNIX, _NETLINK])
        # As if no service of the driver ran: `cuInit` asks MPS and goes on without it.
        rules["connect"] = [_step(_RETURN, _ABSENT)]
        # Without an address a datagram goes only to the other end of a pair.
        rules["sendto"] = _only_null(4)
    return rules


def _only(argument: int, values: Iterable[int], *, otherwise: int = _DENY) -> list[bytes]:
    """Allow the call if the low half of an argument has one of these values.

    The kernel ignores the high half of a number of 32 bits.
    """
    cases = (_case(value, [_step(_RETURN, _ALLOW)]) for value in values)
    return [_load(argument), *chain.from_iterable(cases), _step(_RETURN, otherwise)]


def _unless(argument: int, values: Iterable[int]) -> list[bytes]:
    """Allow the call unless the low half of an argument has one of these values."""
    cases = (_case(value, [_step(_RETURN, _DENY)]) for value in values)
    return [_load(argument), *chain.from_iterable(cases), _step(_RETURN, _ALLOW)]


def _case(value: int, then: Sequence[bytes]) -> list[bytes]:
    return [_step(_IF_EQUAL, value, 0, len(then)), *then]


def _only_null(argument: int, otherwise: int = _DENY) -> list[bytes]:
    """Allow the call if a pointer is null."""
    code: list[bytes] = []
    for high in (False, True):
        code += [_load(argument, high=high), _step(_IF_EQUAL, 0, 1, 0), _step(_RETURN, otherwise)]
    return [*code, _step(_RETURN, _ALLOW)]


def _load(argument: int, *, high: bool = False) -> bytes:
    """Load a half of an argument; both architectures are little-endian."""
    return _step(_LOAD, _ARGUMENTS + 8 * argument + 4 * high)


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


_DENY_ELSE_ALLOW = (_step(_RETURN, _DENY), _step(_RETURN, _ALLOW))
_SCOPED = [_step(_RETURN, _ALLOW)]  # Landlock denies signals to processes outside
