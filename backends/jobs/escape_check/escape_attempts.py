"""What a compromised worker would try: each attempt raises OSError if it is stopped."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from ...confinement.confine import program_loaders
from .escape_calls import in_child, system_call
from .messages import EscapeSpec

Attempt = Callable[[EscapeSpec], object]
LARGEST = 1 << 20
"""Bytes that a file of the KV store may have here."""

_NEW_USER, _SIGCHLD = 0x10000000, 17
_TRACE, _DUMPABLE = 0x4206, 4


def _create(folder: Path) -> None:
    """Create a file and remove it."""
    path = folder / f".ingle-escape-{uuid.uuid4().hex}"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    path.unlink()


def _open(path: str | Path, flags: int) -> None:
    os.close(os.open(path, flags))


def _grow(spec: EscapeSpec) -> None:
    with Path(spec.kv, "own", "large").open("wb") as file:
        file.truncate(LARGEST + 1)


def _trace(_: EscapeSpec) -> None:
    parent = os.getppid()
    in_child(lambda: system_call("ptrace", _TRACE, parent, 0, 0))


def _read_memory(spec: EscapeSpec) -> None:
    fd = os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY)
    try:
        os.pread(fd, 1, spec.address)
    finally:
        os.close(fd)


def _copy_memory(spec: EscapeSpec) -> None:
    copy = ctypes.create_string_buffer(8)
    pair = ctypes.c_void_p * 2
    here, there = pair(ctypes.addressof(copy), 1), pair(spec.address, 1)
    system_call("process_vm_readv", os.getppid(), here, 1, there, 1, 0)


def _move_parent(_: EscapeSpec) -> None:
    """Restrict the parent to one processor and undo it."""
    parent, before = os.getppid(), os.sched_getaffinity(os.getppid())
    # On one processor there is nothing to take away, but the call may fail.
    os.sched_setaffinity(parent, {min(before)})
    if len(before) > 1 and os.sched_getaffinity(parent) == before:
        raise PermissionError(13, "the call had no effect")
    os.sched_setaffinity(parent, before)


def _own_signals(_: EscapeSpec) -> None:
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(reader, 8, os.getppid())  # F_SETOWN
    finally:
        os.close(reader)
        os.close(writer)


def _start(*command: str) -> None:
    quiet = subprocess.DEVNULL
    done = subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, check=False)
    if done.returncode:
        raise PermissionError(13, f"it ended with status {done.returncode}")


def _start_copy(_: EscapeSpec) -> None:
    fd = os.memfd_create("ingle-escape", 0)
    try:
        os.write(fd, Path("/bin/true").read_bytes())
        in_child(lambda: os.execv(f"/proc/self/fd/{fd}", ["true"]))  # noqa: S606
    finally:
        os.close(fd)


def _connect(family: int, kind: int, address: tuple[str, int] | str) -> None:
    with socket.socket(family, kind) as client:
        client.connect(address)


def _send(family: int, address: tuple[str, int] | str) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", address)


def _send_message(spec: EscapeSpec) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.sendmsg([b"x"], [], 0, spec.datagrams)


def _listen(_: EscapeSpec) -> None:
    with socket.create_server(("127.0.0.1", 0)):
        pass


def _new_descriptor(name: str, *arguments: object) -> None:
    os.close(system_call(name, *arguments))


def _make_map(_: EscapeSpec) -> None:
    attributes = (ctypes.c_uint32 * 32)(2, 4, 4, 1)  # an array of one number
    _new_descriptor("bpf", 0, attributes, ctypes.sizeof(attributes))


def _count_events(_: EscapeSpec) -> None:
    attributes = (ctypes.c_uint32 * 16)(1, 64)  # PERF_TYPE_SOFTWARE, the size
    attributes[10] = 1 << 5 | 1 << 6  # not the kernel's
    _new_descriptor("perf_event_open", attributes, 0, -1, -1, 0)


def _become_dumpable(_: EscapeSpec) -> None:
    system_call("prctl", _DUMPABLE, 1, 0, 0, 0)
    system_call("prctl", _DUMPABLE, 0, 0, 0, 0)


def _enter_namespace(_: EscapeSpec) -> None:
    fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        system_call("setns", fd, 0)
    finally:
        os.close(fd)


def _clone(_: EscapeSpec) -> None:
    pid = system_call("clone", _NEW_USER | _SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


_FILES: Mapping[str, Attempt] = {
    "read a file of the user": lambda spec: _open(spec.secret, os.O_RDONLY),
    "list a folder of the user": lambda spec: list(Path(spec.outside).iterdir()),
    "list the home folder": lambda _: list(Path.home().iterdir()),
    "read the conversations of another model": lambda spec: _open(
        Path(spec.kv, "other", "chat.kv"), os.O_RDONLY
    ),
    "read /etc/shadow": lambda _: _open("/etc/shadow", os.O_RDONLY),
    "change a file of the user": lambda spec: _open(spec.secret, os.O_WRONLY),
    "append to a file of the user": lambda spec: _open(spec.secret, os.O_WRONLY | os.O_APPEND),
    "truncate a file of the user": lambda spec: os.truncate(spec.secret, 1),
    "create a file in a folder of the user": lambda spec: _create(Path(spec.outside)),
    "create a file in the home folder": lambda _: _create(Path.home()),
    "create a file in /tmp": lambda _: _create(Path("/tmp")),  # noqa: S108
    "link to a file of the user": lambda spec: Path(spec.kv, "own", "link").hardlink_to(
        spec.secret
    ),
    "make a symbolic link": lambda spec: Path(spec.kv, "own", "symlink").symlink_to(spec.secret),
    "change the mode of a file": lambda spec: Path(spec.secret).chmod(0o600),
    "change the owner of a file": lambda spec: os.chown(spec.secret, os.getuid(), -1),
    "change the times of a file": lambda spec: os.utime(spec.secret),
    "change attributes of a file": lambda spec: os.setxattr(spec.secret, "user.ingle", b"x"),
    "rename a file of the user": lambda spec: (
        Path(spec.secret).rename(spec.secret + "2").rename(spec.secret)
    ),
    "remove a file of the user": lambda spec: Path(spec.outside, "old").unlink(),
    "write a larger file than the KV store": _grow,
    "write to /proc/sys": lambda _: _open("/proc/sys/kernel/core_pattern", os.O_WRONLY),
}
_PROCESSES: Mapping[str, Attempt] = {
    "signal the parent": lambda _: os.kill(os.getppid(), 0),
    "signal all processes": lambda _: os.kill(-1, 0),
    "open the parent as a descriptor": lambda _: _new_descriptor("pidfd_open", os.getppid(), 0),
    "have the kernel signal the parent": _own_signals,
    "trace the parent": _trace,
    "read the parent's memory in /proc": _read_memory,
    "read the parent's memory": _copy_memory,
    "read the parent's environment": lambda _: _open(f"/proc/{os.getppid()}/environ", os.O_RDONLY),
    "compare descriptors with the parent": lambda _: system_call(
        "kcmp", os.getppid(), os.getpid(), 0, 0, 0
    ),
    "change the parent's limits": lambda _: resource.prlimit(
        os.getppid(), resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)
    ),
    "move the parent to one processor": _move_parent,
    "change how the parent is scheduled": lambda _: os.sched_setscheduler(
        os.getppid(), os.SCHED_OTHER, os.sched_param(0)
    ),
    "change the parent's priority": lambda _: os.setpriority(
        os.PRIO_PROCESS, os.getppid(), os.getpriority(os.PRIO_PROCESS, os.getppid())
    ),
    "change the parent's I/O priority": lambda _: system_call("ioprio_set", 1, os.getppid(), 0),
    "make its own memory readable": _become_dumpable,
}
_PROGRAMS: Mapping[str, Attempt] = {
    "start a shell": lambda _: _start("/bin/sh", "-c", ":"),
    "start a shell through the loader": lambda _: _start(
        str(program_loaders()[0]), "/bin/sh", "-c", ":"
    ),
    "start a program in memory": _start_copy,
}
_NETWORK: Mapping[str, Attempt] = {
    "connect over TCP": lambda spec: _connect(
        socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", spec.tcp)
    ),
    "listen on TCP": _listen,
    "send over UDP": lambda spec: _send(socket.AF_INET, ("127.0.0.1", spec.udp)),
    "connect to a socket of the user": lambda spec: _connect(
        socket.AF_UNIX, socket.SOCK_STREAM, spec.stream
    ),
    "connect to an abstract socket": lambda spec: _connect(
        socket.AF_UNIX, socket.SOCK_STREAM, "\0" + spec.abstract
    ),
    "send a datagram to a socket": lambda spec: _send(socket.AF_UNIX, spec.datagrams),
    "send a message to a socket": _send_message,
}
_KERNEL: Mapping[str, Attempt] = {
    "make a user namespace": lambda _: in_child(lambda: system_call("unshare", _NEW_USER)),
    "start a process in a user namespace": _clone,
    "enter a network namespace": _enter_namespace,
    "use io_uring": lambda _: _new_descriptor(
        "io_uring_setup", 1, ctypes.create_string_buffer(120)
    ),
    "use bpf": _make_map,
    "use perf events": _count_events,
    "use userfaultfd": lambda _: _new_descriptor("userfaultfd", 1),
    "use the kernel's keyrings": lambda _: system_call("add_key", b"user", b"ingle", b"x", 1, -2),
}
ATTEMPTS: Mapping[str, Mapping[str, Attempt]] = {
    "files": _FILES,
    "processes": _PROCESSES,
    "programs": _PROGRAMS,
    "network": _NETWORK,
    "kernel": _KERNEL,
}
"""Attempts by what they are about."""


def known_gap(kind: str, *, drives_gpu: bool) -> str:
    """Return why attempts of a kind are possible with a GPU; "" if they are not."""
    if kind == "programs" and drives_gpu:
        return "compilers of GPU kernels are programs, which run within the same limits"
    return ""
