"""Sockets inherited from the service manager, and notifications to it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from ingle.daemon.service.socket_activation import InheritedSockets, inherited_sockets
from ingle.daemon.service.systemd_notify import ServiceNotifier
from ingle.daemon.transport.sockets import SocketError

FIRST = 200


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder with a path short enough for a unix socket."""
    with tempfile.TemporaryDirectory(prefix="ingle-") as name:
        yield Path(name)


def listening(
    cleanup: ExitStack, where: Path | tuple[str, int], *, mode: int = 0o600
) -> socket.socket:
    family = socket.AF_UNIX if isinstance(where, Path) else socket.AF_INET
    created = cleanup.enter_context(socket.socket(family))
    created.bind(str(where) if isinstance(where, Path) else where)
    if isinstance(where, Path):
        where.chmod(mode)
    created.listen()
    return created


def pass_sockets(cleanup: ExitStack, *sockets: socket.socket) -> InheritedSockets:
    """Pass sockets as systemd does, but starting from another descriptor."""
    for number, each in enumerate(sockets, FIRST):
        os.dup2(each.fileno(), number)
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(sockets)), "OTHER": "1"}
    try:
        found = inherited_sockets(environ, first=FIRST)
    finally:
        assert environ == {"OTHER": "1"}, "the variables are not inherited by children"
    for each in (found.unix, found.tcp):
        if each is not None:
            cleanup.callback(each.close)
    return found


def test_unix_and_tcp_sockets_are_inherited(cleanup: ExitStack, folder: Path) -> None:
    unix, tcp = listening(cleanup, folder / "s"), listening(cleanup, ("127.0.0.1", 0))
    found = pass_sockets(cleanup, tcp, unix)
    assert found.path == folder / "s"
    assert found.unix is not None
    assert found.tcp is not None
    assert found.tcp.getsockname() == tcp.getsockname()
    assert not os.get_inheritable(found.tcp.fileno())


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_PID": "1", "LISTEN_FDS": "2"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "many"},
        {"LISTEN_FDS": "1"},
    ],
)
def test_sockets_for_another_process_are_ignored(environ: dict[str, str]) -> None:
    assert inherited_sockets(environ) == InheritedSockets()
    assert environ == {}


def test_tcp_socket_reachable_from_other_machines_is_refused(cleanup: ExitStack) -> None:
    with pytest.raises(SocketError, match="other machines"):
        pass_sockets(cleanup, listening(cleanup, ("0.0.0.0", 0)))


def test_unix_socket_open_to_other_users_is_refused(cleanup: ExitStack, folder: Path) -> None:
    with pytest.raises(SocketError, match="Other users can open"):
        pass_sockets(cleanup, listening(cleanup, folder / "s", mode=0o666))


def test_socket_in_a_folder_writable_by_others_is_refused(cleanup: ExitStack, folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(SocketError, match="Other users can open or replace"):
        pass_sockets(cleanup, listening(cleanup, folder / "s"))


def test_more_than_one_socket_of_a_family_is_refused(cleanup: ExitStack, folder: Path) -> None:
    with pytest.raises(SocketError, match="more than one"):
        pass_sockets(cleanup, listening(cleanup, folder / "a"), listening(cleanup, folder / "b"))


def test_descriptors_that_do_not_listen_are_refused(cleanup: ExitStack, folder: Path) -> None:
    plain = cleanup.enter_context(socket.socket())
    with pytest.raises(SocketError, match="is not a listening socket"):
        pass_sockets(cleanup, plain)
    with (folder / "file").open("wb") as file:
        os.dup2(file.fileno(), FIRST)
    with pytest.raises(SocketError, match="no socket as descriptor"):
        inherited_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}, first=FIRST)
    os.close(FIRST)


LAUNCHER = """
import os, sys
for number, name in enumerate(("UNIX_FD", "TCP_FD"), 3):
    os.dup2(int(os.environ.pop(name)), number)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
os.execv(sys.executable, [sys.executable, "-P", "-m", "ingle.daemon.main", "serve"])
"""
"""What systemd does between fork and exec."""


async def test_daemon_serves_inherited_sockets_and_notifies_the_manager(
    cleanup: ExitStack, folder: Path
) -> None:
    unix, tcp = listening(cleanup, folder / "s"), listening(cleanup, ("127.0.0.1", 0))
    channel = cleanup.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    channel.bind(str(folder / "notify"))
    channel.setblocking(False)
    environment = {
        **os.environ,
        "INGLE_SOCKET": str(folder / "s"),
        "NOTIFY_SOCKET": str(folder / "notify"),
        "WATCHDOG_USEC": "400000",
        "UNIX_FD": str(unix.fileno()),
        "TCP_FD": str(tcp.fileno()),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        LAUNCHER,
        env=environment,
        pass_fds=(unix.fileno(), tcp.fileno()),
        stderr=subprocess.PIPE,
    )
    try:
        loop = asyncio.get_running_loop()
        notifications: list[str] = []
        async with asyncio.timeout(20):
            while not any(text.startswith("READY=1") for text in notifications):
                notifications.append((await loop.sock_recv(channel, 4096)).decode())
            status = await _status(folder / "s")
            assert status["address"] == f"127.0.0.1:{tcp.getsockname()[1]}"
            async with httpx.AsyncClient() as client:
                url = f"http://{status['address']}/health"
                assert (await client.get(url)).status_code == 200
            notifications.clear()
            while notifications.count("WATCHDOG=1") < 2:
                notifications.append((await loop.sock_recv(channel, 4096)).decode())
            process.send_signal(signal.SIGTERM)
            while not any(text.startswith("STOPPING=1") for text in notifications):
                notifications.append((await loop.sock_recv(channel, 4096)).decode())
            assert await process.wait() == 0
        assert (folder / "s").is_socket(), "the socket belongs to the service manager"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.slow
async def test_inherited_socket_that_differs_from_the_settings_is_refused(
    cleanup: ExitStack, folder: Path
) -> None:
    unix, tcp = listening(cleanup, folder / "s"), listening(cleanup, ("127.0.0.1", 0))
    environment = {**os.environ, "UNIX_FD": str(unix.fileno()), "TCP_FD": str(tcp.fileno())}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        LAUNCHER,
        env=environment,
        pass_fds=(unix.fileno(), tcp.fileno()),
        stderr=subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"The service manager listens on" in errors


@pytest.mark.slow
async def test_systemd_socket_activate_passes_the_socket(ingle_home: Path, folder: Path) -> None:
    program = shutil.which("systemd-socket-activate")
    if program is None:
        pytest.skip("there is no systemd-socket-activate")
    path = folder / "s"
    variables = {**os.environ, "INGLE_SOCKET": str(path), "INGLE_PORT": "-1"}
    setenv_options = [f"--setenv={name}" for name in variables if name.startswith("INGLE_")]
    process = await asyncio.create_subprocess_exec(
        program,
        f"--listen={path}",
        *setenv_options,
        *(sys.executable, "-P", "-m", "ingle.daemon.main", "serve"),
        env=variables,
        stderr=subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(20):
            while not path.is_socket():
                await asyncio.sleep(0.01)
            path.chmod(0o600)  # the socket unit sets the mode; systemd-socket-activate cannot
            assert (await _status(path))["pid"] == process.pid
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _status(path: Path) -> dict[str, object]:
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(transport=transport, timeout=20) as client:
        return (await client.get("http://localhost/ingle/v1/status")).json()


@pytest.mark.parametrize("address", ["", "relative", "vsock:2:3"])
def test_invalid_notify_address_is_ignored(address: str) -> None:
    environ = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "x", "WATCHDOG_PID": "1"}
    ServiceNotifier(environ).ready("fine")
    assert environ == {}


def test_missing_notify_socket_is_ignored(folder: Path) -> None:
    ServiceNotifier({"NOTIFY_SOCKET": str(folder / "gone")}).stopping()
