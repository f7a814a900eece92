"""The system call filter: its program, interpreted for both architectures, and in a process."""

from __future__ import annotations

import errno
import struct
import subprocess
import sys

import pytest

from ingle.backends.confinement.seccomp_filter import (
    _notify,  # pyright: ignore[reportPrivateUsage]
    filter_program,
)
from ingle.backends.confinement.system_calls import ALLOWED, ATTRIBUTES, CHECKED, DENIED

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


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("runs_commands", [False, True])
def test_with_a_gpu_and_for_commands_all_but_the_denied_calls_are_possible(
    machine: str, runs_commands: bool
) -> None:
    architecture, column = ARCHITECTURES[machine]
    processes = (OWN, PARENT)
    lenient = {"runs_commands": True} if runs_commands else {"drives_gpu": True}
    program = filter_program(architecture, processes=processes, **lenient)
    steps = struct.calcsize("=HBBI")
    assert 0 < len(program) // steps < 4096
    checked = {numbers[column] for numbers in CHECKED.values()}
    denied = {numbers[column]: name for name, numbers in DENIED.items()}
    for number in set(range(600)) - checked:
        decided = run(program, struct.pack("=IIQ6Q", number, architecture, 0, *[0] * 6))
        ignored = runs_commands and denied.get(number) in ATTRIBUTES
        expected = (0 if ignored else errno.EACCES) if number in denied else -1
        assert decided == expected, denied.get(number, number)
    other = 0x40000000 | (architecture & 0xFF)
    assert run(program, struct.pack("=IIQ6Q", 0, other, 0, *[0] * 6)) == errno.EACCES
    if machine == "x86-64":  # numbers of the x32 calls
        for number, expected in ((0x3FFF_FFFF, -1), (0x4000_0000, 13), (0x4000_0001, 13)):
            data = struct.pack("=IIQ6Q", number, architecture, 0, *[0] * 6)
            assert run(program, data) == expected


HIGH = 1 << 32
DECIDED: list[tuple[str, tuple[int, ...], int]] = [
    *(("fcntl", (3, command), errno.EACCES) for command in (8, 10, 15, HIGH | 8)),
    *(("fcntl", (3, command), -1) for command in (0, 7, 9, 11, 14, 16)),
    *(("fcntl", (command, 0), -1) for command in (8, 10, 15)),
    *(("ioctl", (3, command), -1) for command in (0x5411, 0x5413, 0x541B, 0x541D, 0x40086601)),
    *(("ioctl", (3, command), -1) for command in (0x40086603, 0x401C5821, 0x401C581F)),
    ("ioctl", (3, HIGH | 0x5412), errno.EACCES),
    ("prctl", (4, 0), -1),
    ("prctl", (4, 1), errno.EACCES),
    ("prctl", (0x59616D61, 0), errno.EACCES),
    *(("prctl", (option, 1), -1) for option in (3, 5, 38, 0x59616D60)),
    ("clone", (17,), -1),
    ("clone", (0x80,), -1),
    ("clone", (0x00010000,), -1),
    *(("kill", (pid, 9), -1) for pid in (1, OWN, (1 << 31) - 1)),
    *(("kill", (pid, 9), errno.EACCES) for pid in (0, 1 << 31, (1 << 32) - 1)),
    ("tgkill", (HIGH | OWN, 1, 9), -1),
    ("sched_setaffinity", (OWN,), -1),
    ("sched_setaffinity", (OWN + 1,), 0),
    ("prlimit64", (HIGH | OWN,), -1),
    ("setpriority", (0, HIGH | OWN), -1),
    ("setpriority", (1, OWN), errno.EACCES),
    ("ioprio_set", (0, OWN), errno.EACCES),
    ("utimensat", (5, HIGH), errno.EACCES),
    ("utimensat", (5, 1), errno.EACCES),
    ("utimensat", (5, 0, 1, 1), -1),
]


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("drives_gpu", [False, True])
def test_arguments_decide_to_the_bit(machine: str, drives_gpu: bool) -> None:
    for call, arguments, expected in DECIDED:
        decided = outcome(machine, call, *arguments, drives_gpu=drives_gpu)
        assert decided == expected, (call, arguments)
    if drives_gpu:
        for address, expected in ((0, -1), (1, errno.EACCES), (HIGH, errno.EACCES)):
            assert outcome(machine, "sendto", 3, 1, 1, 0, address, drives_gpu=True) == expected
        assert outcome(machine, "socket", HIGH | 16, drives_gpu=True) == -1


def test_reported_program_asks_for_every_denied_call_and_no_other() -> None:
    architecture, _ = ARCHITECTURES["x86-64"]
    program = filter_program(architecture, processes=(OWN, PARENT), drives_gpu=True)
    notifying = _notify(program)
    assert len(notifying) == len(program)
    asked = 0
    for before, after in zip(
        struct.iter_unpack("=HBBI", program), struct.iter_unpack("=HBBI", notifying), strict=True
    ):
        denied = before[0] == 0x06 and before[3] in (0x50000 | errno.EACCES, 0x50000 | errno.ENOENT)
        assert after == ((0x06, 0, 0, 0x7FC00000) if denied else before)
        asked += denied
    assert asked > len(DENIED)


@pytest.mark.skipif(sys.platform != "linux", reason="uses Linux features")
@pytest.mark.parametrize("drives_gpu", [False, True])
def test_connected_process_keeps_its_connections_only(drives_gpu: bool) -> None:
    """In threads that started before, too."""
    code = f"""
import os, socket, threading
from ingle.backends.confinement.seccomp_filter import filter_calls
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far, _ = listener.accept()
ready = threading.Event()

def attempt(action):
    try:
        action()
    except OSError as error:
        print(type(error).__name__)

def use():
    ready.wait()
    attempt(lambda: socket.socket())
    attempt(listener.accept)
    os.write(far.fileno(), b"x")
    print(near.recv(1))

thread = threading.Thread(target=use)
thread.start()
assert filter_calls(drives_gpu={drives_gpu}, is_connected=True)
ready.set()
thread.join()
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["PermissionError"] * 2 + ["b'x'"], done.stderr
