"""Blocks the network and other processes with a seccomp filter.

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
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

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


# AUDIT_ARCH_* of linux/audit.h, which the kernel passes to a filter beside the call's number.
_X86_64 = 0xC000003E
_AARCH64 = 0xC00000B7

# The number of a call on either, from asm/unistd_64.h and asm-generic/unistd.h.
_COLUMNS = {_X86_64: 0, _AARCH64: 1}
_SOCKET = (41, 198)
# Denied unless GPU drivers need them: libcuda's `cuInit` binds an abstract Unix socket called
# "cuda-uvmfd-<namespace>-<pid>", over which processes of one user pass descriptors, and listens.
_LOCAL = ((42, 203), (49, 200), (50, 201))  # connect, bind, listen
# Calls that a worker never needs.
_DENIED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "accept": (43, 202),
        "accept4": (288, 242),
        # Sockets made through io_uring bypass seccomp.
        "io_uring_setup": (425, 425),
        "io_uring_enter": (426, 426),
        "io_uring_register": (427, 427),
        # Other processes of the same user.
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "process_vm_writev": (311, 271),
        "process_madvise": (440, 440),
        "pidfd_getfd": (438, 438),
        "kcmp": (312, 272),
        # Kernel subsystems with a history of vulnerabilities, not needed by a model.
        "bpf": (321, 280),
        "perf_event_open": (298, 241),
        "userfaultfd": (323, 282),
        "add_key": (248, 217),
        "request_key": (249, 218),
        "keyctl": (250, 219),
        "unshare": (272, 97),
        "setns": (308, 268),
        "mount": (165, 40),
        "umount2": (166, 39),
        "pivot_root": (155, 41),
        "chroot": (161, 51),
        "open_tree": (428, 428),
        "move_mount": (429, 429),
        "fsopen": (430, 430),
        "fsmount": (432, 432),
        "mount_setattr": (442, 442),
        "open_by_handle_at": (304, 265),
        "fanotify_init": (300, 262),
        # Calls reserved to root, for a daemon that runs as root.
        "kexec_load": (246, 104),
        "kexec_file_load": (320, 294),
        "init_module": (175, 105),
        "finit_module": (313, 273),
        "delete_module": (176, 106),
        "swapon": (167, 224),
        "swapoff": (168, 225),
        "reboot": (169, 142),
        "sethostname": (170, 161),
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
    }
)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid_network(*, local_sockets: bool) -> bool:
    """Block the network and other processes for this process and its children.

    Local sockets (Unix, netlink) stay with `local_sockets`, since GPU drivers use them, but they
    accept no connection. Denied calls fail with EACCES. Returns False if the system has no such
    filters. Call it before threads start.
    """
    known = {"x86_64": _X86_64, "AMD64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}
    architecture = known.get(platform.machine())
    if sys.platform != "linux" or architecture is None:
        return False
    program = filter_program(architecture, local_sockets=local_sockets)
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


def filter_program(architecture: int, *, local_sockets: bool) -> bytes:
    """Return the filter program as the kernel reads it, 8 bytes per instruction.

    `architecture` is an AUDIT_ARCH number; raises KeyError for an unknown one.
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
    denied = sorted(numbers[column] for numbers in _DENIED.values())
    if not local_sockets:
        denied += [numbers[column] for numbers in _LOCAL]
    for number in denied:
        code += [_step(_IF_EQUAL, number, 0, 1), _step(_RETURN, _DENY)]
    families = [int(socket.AF_UNIX), *([_NETLINK] if local_sockets else [])]
    code += [
        _step(_IF_EQUAL, _SOCKET[column], 1, 0),
        _step(_RETURN, _ALLOW),
        _step(_LOAD, _FIRST_ARGUMENT),
    ]
    for family in families:
        code += [_step(_IF_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW)]
    return b"".join([*code, _step(_RETURN, _DENY)])


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
