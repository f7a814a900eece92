"""The system call filter: its program, interpreted for both architectures, and in a process."""

from __future__ import annotations

import errno
import struct
import subprocess
import sys

import pytest

from ingle.backends.confinement.seccomp_filter import filter_program
from ingle.backends.confinement.system_calls import ALLOWED, CHECKED, DENIED

ARCHITECTURES = {"x86-64": (0xC000003E, 0), "AArch64": (0xC00000B7, 1)}
ALLOW = 0x7FFF0000
OWN, OTHER, PARENT = 1234, 4321, 1000
NAMESPACES = (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
POINTER = 0x7F00_0000_0000


def outcome(machine: str, call: str, *arguments: int, drives_gpu: bool = False) -> int:
    """Run the filter's program as the kernel does: -1 for allowed, else the error."""
    architecture, column = ARCHITECTURES[machine]
    number = {**ALLOWED, **CHECKED, **DENIED}[call][column]
    assert number is not None
    values = [value & 0xFFFF_FFFF_FFFF_FFFF for value in (*arguments, *[0] * 6)][:6]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *values)
    return run(filter_program(architecture, processes=(OWN, PARENT), drives_gpu=drives_gpu), data)


def run(program: bytes, data: bytes) -> int:
    accumulator = place = 0
    steps = list(struct.iter_unpack("=HBBI", program))
    while True:
        operation, if_true, if_false, value = steps[place]
        place += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif operation == 0x06:
            return -1 if value == ALLOW else value & 0xFFFF
        else:
            compared = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }[operation]
            place += if_true if compared else if_false


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("drives_gpu", [False, True])
def test_calls_reach_only_the_own_process(machine: str, drives_gpu: bool) -> None:
    for call in ("prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr"):
        decided = [outcome(machine, call, pid, drives_gpu=drives_gpu) for pid in (0, OWN, OTHER)]
        assert decided == [-1, -1, errno.EACCES], call
    for call, kind in (("setpriority", 0), ("ioprio_set", 1)):
        decided = [
            outcome(machine, call, *arguments, drives_gpu=drives_gpu)
            for arguments in ((kind, 0), (kind, OWN), (kind, OTHER), (kind + 1, 0))
        ]
        assert decided == [-1, -1, errno.EACCES, errno.EACCES], call
    # Ignored, not refused: see the filter.
    assert outcome(machine, "sched_setaffinity", OTHER, drives_gpu=drives_gpu) == 0
    assert outcome(machine, "sched_setaffinity", 0, drives_gpu=drives_gpu) == -1
    for pids, expected in (((OWN, OTHER), -1), ((0, -1, -OTHER), errno.EACCES)):
        for pid in pids:
            assert outcome(machine, "kill", pid, 9, drives_gpu=drives_gpu) == expected, pid
    assert outcome(machine, "kill", PARENT, 9, drives_gpu=drives_gpu) == errno.EPERM
    for process, thread, expected in ((OWN, OTHER, -1), (OTHER, OWN, errno.EACCES)):
        assert outcome(machine, "tgkill", process, thread, 9, drives_gpu=drives_gpu) == expected


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("drives_gpu", [False, True])
def test_no_namespaces_and_no_attributes_of_files(machine: str, drives_gpu: bool) -> None:
    thread = 0x3D0F00  # as the C library makes one
    assert outcome(machine, "clone", thread, drives_gpu=drives_gpu) == -1
    for flag in NAMESPACES:
        assert outcome(machine, "clone", flag | 17, drives_gpu=drives_gpu) == errno.EACCES
    assert outcome(machine, "clone3", drives_gpu=drives_gpu) == errno.ENOSYS
    decided = [
        outcome(machine, "utimensat", 5, path, drives_gpu=drives_gpu)
        for path in (0, POINTER, POINTER + 0x1000)
    ]
    assert decided == [-1, errno.EACCES, errno.EACCES]
    denied = ("fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "setxattr", "lsetxattr")
    for call in (
        *denied,
        "fsetxattr",
        "setxattrat",
        "removexattr",
        "unshare",
        "setns",
        "pidfd_open",
    ):
        refused = outcome(machine, call, drives_gpu=drives_gpu)
        assert refused in (errno.EACCES, errno.ENOSYS), call
    for command in (0x5412, 0x541C, 0x40086602, 0x401C5820):
        assert outcome(machine, "ioctl", 3, command, drives_gpu=drives_gpu) == errno.EACCES
    assert outcome(machine, "ioctl", 3, 0x5401, drives_gpu=drives_gpu) == -1


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_sockets_are_local_with_a_gpu_and_none_without(machine: str) -> None:
    assert outcome(machine, "socket", 1) == errno.EACCES
    families = [outcome(machine, "socket", family, drives_gpu=True) for family in (1, 16, 2, 10)]
    assert families == [-1, -1, errno.EACCES, errno.EACCES]
    assert outcome(machine, "connect", 3, POINTER, 110, drives_gpu=True) == errno.ENOENT
    addresses = [
        outcome(machine, "sendto", 3, POINTER, 1, 0, address, drives_gpu=True)
        for address in (0, POINTER)
    ]
    assert addresses == [-1, errno.EACCES]
    assert outcome(machine, "sendto", 3, POINTER, 1) == errno.EACCES


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_without_a_gpu_only_listed_calls_are_possible(machine: str) -> None:
    architecture, column = ARCHITECTURES[machine]
    strict = filter_program(architecture, processes=(OWN, PARENT), drives_gpu=False)
    assert len(strict) // 8 < 4096
    known = {numbers[column] for numbers in {**ALLOWED, **CHECKED}.values()} - {None}
    assert {numbers[column] for numbers in DENIED.values()}.isdisjoint(known)
    for number in set(range(600)) - known:
        decided = run(strict, struct.pack("=IIQ6Q", number, architecture, 0, *[0] * 6))
        assert decided == (errno.ENOSYS if number >= 451 else errno.EACCES), number
    # A 32-bit program has other numbers.
    assert run(strict, struct.pack("=IIQ6Q", 0, 0x40000003, 0, *[0] * 6)) == errno.EACCES


ORDINARY = """
import ctypes, mmap, os, resource, subprocess, sys, tempfile, threading
from pathlib import Path
from ingle.backends.confinement.seccomp_filter import filter_calls
assert filter_calls(drives_gpu=sys.argv[1] == "gpu")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.nice(0)
thread = threading.Thread(target=print, args=["thread"])
thread.start()
thread.join()
with tempfile.TemporaryFile() as file:
    file.write(b"text")
    file.flush()
    os.utime(file.fileno())
    mmap.mmap(file.fileno(), 4).close()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
child.kill()
print(child.wait())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses Linux features")
@pytest.mark.parametrize("mode", ["cpu", "gpu"])
def test_ordinary_work_is_possible(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORDINARY, mode],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "thread\n-9\n", done.stderr


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_commands_have_no_network_and_attributes_seem_to_change(machine: str) -> None:
    architecture, column = ARCHITECTURES[machine]

    def decided(call: str, *arguments: int, scoped: bool = True) -> int:
        number = {**ALLOWED, **CHECKED, **DENIED}[call][column]
        values = [*arguments, *[0] * 6][:6]
        program = filter_program(
            architecture, processes=(OWN, PARENT), runs_commands=True, scopes_signals=scoped
        )
        return run(program, struct.pack("=IIQ6Q", number, architecture, 0, *values))

    assert decided("socket", 1) == -1
    assert decided("socket", 2) == decided("socket", 10) == errno.EACCES
    for call in ("sendmsg", "ptrace", "io_uring_setup", "unshare", "pidfd_getfd"):
        assert decided(call) == errno.EACCES, call
    assert decided("fchmodat") == decided("utimensat", 0, POINTER) == 0
    assert decided("kill", OTHER) == decided("tgkill", OTHER) == -1
    assert decided("kill", PARENT, scoped=False) == errno.EPERM
