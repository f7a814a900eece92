"""Blocks the network and other processes with a seccomp filter.

Source: seccomp(2), and linux/filter.h for the instructions.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import sys
from typing import Final

from .syscall_numbers import CallNumbers, call_numbers

_LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K
_ALLOW = 0x7FFF0000
_ERROR = 0x00050000
_DENY = _ERROR | errno.EACCES
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_NETLINK: Final = 16


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid_network(*, local_sockets: bool) -> bool:
    """Block the network and other processes for this process and its children.

    Local sockets (Unix, netlink) stay with `local_sockets`: GPU drivers use them. Denied calls fail
    with EACCES. Returns False if the system has no such filters. Call it before threads start.
    """
    numbers = call_numbers()
    if sys.platform != "linux" or numbers is None:
        return False
    program = filter_program(numbers, local_sockets=local_sockets)
    code = ctypes.create_string_buffer(program, len(program))
    handed = _Program(len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(handed), 0, 0) != 0:
        failed = ctypes.get_errno()
        if failed in (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES):
            return False  # a kernel, or a container, without them
        raise OSError(failed, os.strerror(failed))
    return True


def filter_program(numbers: CallNumbers, *, local_sockets: bool) -> bytes:
    """Return the filter program as the kernel reads it, 8 bytes per instruction."""
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_IF_EQUAL, numbers.architecture, 1, 0),
        _step(_RETURN, _DENY),  # calls as a 32-bit program makes them
        _step(_LOAD, _NUMBER),
    ]
    if numbers.has_x32:
        code += [_step(_IF_AT_LEAST, _X32, 0, 1), _step(_RETURN, _DENY)]
    denied = list(numbers.denied)
    if not local_sockets:
        denied.append(numbers.connect)
    for number in denied:
        code += [_step(_IF_EQUAL, number, 0, 1), _step(_RETURN, _DENY)]
    families = [int(socket.AF_UNIX), *([_NETLINK] if local_sockets else [])]
    code += [
        _step(_IF_EQUAL, numbers.socket, 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_LOAD, _FIRST_ARGUMENT),
    ]
    for family in families:
        code += [_step(_IF_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW)]
    return b"".join([*code, _step(_RETURN, _DENY)])


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
