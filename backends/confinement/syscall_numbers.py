"""System calls that a worker never needs, with their numbers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from types import MappingProxyType

# AUDIT_ARCH_* of linux/audit.h, which the kernel passes to a filter beside the call's number.
_X86_64 = 0xC000003E
_AARCH64 = 0xC00000B7

# From asm/unistd_64.h and asm-generic/unistd.h.
_SOCKET = {_X86_64: 41, _AARCH64: 198}
_CONNECT = {_X86_64: 42, _AARCH64: 203}
_DENIED: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "bind": (49, 200),
        "listen": (50, 201),
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


class CallNumbers:
    """Call numbers of one architecture: `denied` regardless of arguments, `socket` and
    `connect`.
    """

    def __init__(self, architecture: int) -> None:
        self.architecture = architecture
        self.socket = _SOCKET[architecture]
        self.connect = _CONNECT[architecture]
        column = 0 if architecture == _X86_64 else 1
        self.denied = tuple(sorted(numbers[column] for numbers in _DENIED.values()))

    @property
    def has_x32(self) -> bool:
        """Return whether the architecture has a second set of numbers."""
        return self.architecture == _X86_64


def call_numbers() -> CallNumbers | None:
    """Return the numbers for this machine; None for an unlisted architecture."""
    known = {"x86_64": _X86_64, "AMD64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}
    architecture = known.get(platform.machine())
    return CallNumbers(architecture) if architecture is not None else None
