"""Unix and TCP sockets, the instance lock, and identification of the peer."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import struct
import sys
from pathlib import Path

import pytest

from ingle.daemon.server.instance_lock import AlreadyRunning, InstanceLock, LockHolder, read_holder
from ingle.daemon.settings.paths import FolderUnusable, Paths, UnsafeFolder, find_paths
from ingle.daemon.transport.peer import endpoint, identify, still_reads
from ingle.daemon.transport.peer_procfs import tcp_uid
from ingle.daemon.transport.peer_sock_diag import diag_uid
from ingle.daemon.transport.sockets import PortInUse, SocketError, bind_tcp, bind_unix

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs unix sockets")


@pytest.fixture
def paths(ingle_home: Path) -> Paths:
    found = find_paths({"INGLE_HOME": str(ingle_home)})
    found.make_private()
    return found


def test_unix_socket_and_its_folder_are_private(paths: Paths) -> None:
    listener = bind_unix(paths.socket, paths)
    assert stat.S_IMODE(paths.socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.socket.parent.stat().st_mode) == 0o700
    listener.close()
    assert not paths.socket.exists()


def test_runtime_folder_permissions_are_restored(paths: Paths) -> None:
    paths.runtime.chmod(0o777)
    bind_unix(paths.socket, paths).close()
    assert stat.S_IMODE(paths.runtime.stat().st_mode) == 0o700


def test_umask_is_restored(paths: Paths) -> None:
    before = os.umask(0o022)
    try:
        bind_unix(paths.socket, paths).close()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_folder_writable_by_others_is_refused(paths: Paths, tmp_path: Path) -> None:
    for mode in (0o777, 0o770, 0o1777):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(UnsafeFolder):
            bind_unix(folder / "x.sock", paths)
        assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_custom_socket_folder_keeps_its_mode(paths: Paths, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    bind_unix(folder / "x.sock", paths).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_symlinked_socket_folder_is_refused(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeFolder):
        bind_unix(tmp_path / "link" / "x.sock", paths)


def test_stale_socket_is_replaced(paths: Paths) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(paths.socket))
    stale.close()
    listener = bind_unix(paths.socket, paths)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(paths.socket))
    listener.close()


def test_socket_in_use_is_not_replaced(paths: Paths) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(paths.socket))
        other.listen()
        with pytest.raises(SocketError, match="Another program listens"):
            bind_unix(paths.socket, paths)
        assert paths.socket.exists()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_regular_files_and_links_are_not_removed(paths: Paths, tmp_path: Path, kind: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    if kind == "file":
        paths.socket.write_text("kept")
    else:
        paths.socket.symlink_to(precious)
    with pytest.raises(SocketError, match="is not a socket"):
        bind_unix(paths.socket, paths)
    assert paths.socket.read_text() == "kept"


def test_socket_below_a_file_is_refused(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for folder in ("file", "file/folder"):
        with pytest.raises(SocketError, match="cannot be created") as refused:
            bind_unix(tmp_path / folder / "ingle.sock", paths)
        assert "INGLE_SOCKET" in (refused.value.hint or "")


def test_close_does_not_remove_a_newer_socket(paths: Paths) -> None:
    first = bind_unix(paths.socket, paths)
    paths.socket.unlink()
    # Kept open so that the successor's file cannot reuse the inode number.
    second = bind_unix(paths.socket, paths)
    if first.inode != second.inode:
        first.close()
        assert paths.socket.exists()
    second.close()


def test_too_long_socket_path_is_reported(paths: Paths, tmp_path: Path) -> None:
    with pytest.raises(SocketError, match="longer than"):
        bind_unix(tmp_path / ("x" * 100), paths)


def test_busy_port_is_reported_with_a_hint() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortInUse, match=f"Port {port} on 127.0.0.1 is in use") as caught:
            bind_tcp("127.0.0.1", port)
    assert "--port" in (caught.value.hint or "")


async def test_answers_do_not_wait_for_acknowledgements() -> None:
    """Nagle's algorithm would hold back the second part of an answer for up to 40 ms."""
    options: asyncio.Queue[int] = asyncio.Queue()

    def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        options.put_nowait(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = bind_tcp("127.0.0.1", 0)
    async with await asyncio.start_server(accepted, sock=listener):
        _, client = await asyncio.open_connection(*listener.getsockname())
        no_delay = await options.get()
        client.close()
    assert no_delay


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_bind_tcp_refuses_non_loopback_addresses(host: str) -> None:
    with pytest.raises(SocketError, match=r"127\.0\.0\.1 only"):
        bind_tcp(host, 0)


def test_instance_lock_reports_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "ingle.lock"
    first, second = InstanceLock(path), InstanceLock(path)
    first.acquire()
    with pytest.raises(AlreadyRunning, match="is starting"):
        second.acquire()
    first.publish(LockHolder(os.getpid(), "/run/ingle.sock", "127.0.0.1:4645"))
    message = rf"process {os.getpid()}, on /run/ingle.sock and 127.0.0.1:4645"
    with pytest.raises(AlreadyRunning, match=message):
        second.acquire()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first.release()
    second.acquire()
    assert read_holder(path) is None
    second.release()


def test_symlinked_lock_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    (tmp_path / "ingle.lock").symlink_to(precious)
    with pytest.raises(FolderUnusable, match="symbolic links"):
        InstanceLock(tmp_path / "ingle.lock").acquire()
    assert precious.read_text() == "kept"


def connected(family: int, address: str) -> tuple[socket.socket, socket.socket, socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.socket(family)
    client.connect((address, listener.getsockname()[1]))
    served, _ = listener.accept()
    return listener, client, served


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/net")


@linux
@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")]
)
def test_peer_uid_of_a_tcp_connection(family: int, address: str) -> None:
    try:
        listener, client, served = connected(family, address)
    except OSError as error:
        pytest.skip(f"this machine does not support such addresses: {error}")
    with listener, client, served:
        found = identify(served, served.close)
        assert found.kind == "tcp"
        assert found.uid == os.geteuid()
        assert found.port == listener.getsockname()[1]


@linux
def test_closed_connection_has_no_peer_uid() -> None:
    listener, client, served = connected(socket.AF_INET, "127.0.0.1")
    with listener, served:
        address = client.getsockname()
        client.close()
        # The row of a closed socket always shows uid 0.
        assert tcp_uid(address, served.getsockname()) is None
        assert diag_uid(address, served.getsockname()) is None


@linux
def test_a_peer_that_has_finished_sending_is_known_while_it_is_open() -> None:
    listener, client, served = connected(socket.AF_INET, "127.0.0.1")
    with listener, served:
        ends = client.getsockname(), served.getsockname()
        client.shutdown(socket.SHUT_WR)
        assert tcp_uid(*ends) == diag_uid(*ends) == os.geteuid()
        assert still_reads(served)
        client.close()
        # What is left of it shows uid 0.
        assert tcp_uid(*ends) is None
        assert diag_uid(*ends) is None
        assert not still_reads(served)


@linux
def test_sock_diag_and_proc_net_tcp_agree() -> None:
    listener, client, served = connected(socket.AF_INET, "127.0.0.1")
    with listener, client, served:
        local, remote = served.getsockname(), client.getsockname()
        try:
            assert diag_uid(remote, local) == tcp_uid(remote, local) == os.geteuid()
        except OSError as error:
            pytest.skip(f"this kernel does not support sock_diag: {error}")
        # A listening socket on the port is not matched as a client.
        assert diag_uid(local, ("127.0.0.1", 1)) is None
        assert diag_uid(("127.0.0.1", 1), local) is None
        assert diag_uid(("::1", remote[1]), ("::1", local[1])) is None


@linux
def test_peer_uid_of_an_ipv6_connection() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    with listener, socket.create_connection(("::1", listener.getsockname()[1])):
        served, (host, port, *_) = listener.accept()
        with served:
            assert identify(served, served.close).uid == os.geteuid()
            assert tcp_uid((host, port), served.getsockname()[:2]) == os.geteuid()


def row(
    local: tuple[str, int], remote: tuple[str, int], state: str, uid: int, inode: int = 7
) -> str:
    def address(host: str, port: int) -> str:
        return f"{struct.unpack('=I', socket.inet_aton(host))[0]:08X}:{port:04X}"

    ends = f"{address(*local)} {address(*remote)}"
    return f"   0: {ends} {state} 00000000:00000000 00:0 0 {uid} 0 {inode} 1"


def test_tcp_uid_matches_only_the_row_of_an_open_end(tmp_path: Path) -> None:
    local, remote = ("127.0.0.1", 4645), ("127.0.0.1", 40000)
    table, empty = tmp_path / "tcp", tmp_path / "tcp6"
    empty.write_text("  sl  local_address\n")
    rows = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid",
        row(local, remote, "01", 1),  # the server's own end
        row(("127.0.0.1", 40001), local, "01", 2),
        row(("127.0.0.2", 40000), local, "01", 3),
        row(remote, ("127.0.0.1", 4646), "01", 4),
    ]
    table.write_text("\n".join(rows))
    assert tcp_uid(remote, local, (table, empty)) is None
    table.write_text("\n".join([*rows, row(remote, local, "06", 0)]))
    assert tcp_uid(remote, local, (table, empty)) is None
    table.write_text("\n".join([*rows, row(remote, local, "05", 0, inode=0)]))
    assert tcp_uid(remote, local, (table, empty)) is None
    table.write_text("\n".join([*rows, row(remote, local, "01", 1000)]))
    assert tcp_uid(remote, local, (table, empty)) == 1000
    assert tcp_uid(remote, local, (tmp_path / "none", tmp_path / "none6")) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("::ffff:7f00:1", "::ffff:7f00:1"),
    ],
)
def test_only_dotted_mapped_addresses_become_ipv4(host: str, expected: str) -> None:
    assert endpoint((host, 80, 0, 0)) == (expected, 80)
