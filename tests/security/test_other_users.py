"""Isolation from other local users: files, sockets, ports and /proc."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.settings.paths import UnsafeFolder, make_private_folder

if TYPE_CHECKING:
    from .conftest import WatchedDaemon

    WatchDaemon = Callable[..., WatchedDaemon]

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can switch to another user"
)

OTHER = 65534
CANARY = "canary-7f3a91"


def as_other_user(work: Callable[[], object]) -> Any:
    """The result of `work` in a forked process of another user."""
    "localhost".encode("idna")  # sockets import it, and the other user may not read our Python
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The child acquires no lock of another thread, and exits without cleanup.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(OTHER)
            os.setuid(OTHER)
            os.write(writing, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return json.loads(answer)


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A path for a home in a folder that all users may enter, as /home/user often is."""
    with _open_home() as home:
        yield home


@contextmanager
def _open_home() -> Generator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "home"


@pytest.fixture(scope="module")
def daemon(watch_daemon_at: WatchDaemon) -> Iterator[WatchedDaemon]:
    """A daemon with data: a chat, a stored response, a file, keys and settings."""
    before = os.umask(0o022)  # the usual umask, which hides nothing
    with _open_home() as open_home:
        yield start_and_use(watch_daemon_at, open_home, before)


def start_and_use(watch_daemon_at: WatchDaemon, open_home: Path, before: int) -> WatchedDaemon:
    try:
        (open_home / "config").mkdir(parents=True)
        (open_home / "config/config.toml").write_text(f'aliases = {{ "{CANARY}" = "echo:1" }}\n')
        KeyStore(open_home / "state/keys.json").create(CANARY)
        daemon = watch_daemon_at(open_home, INGLE_ACCESS_LOG="true")
    finally:
        os.umask(before)
    body: dict[str, Any] = {"model": "echo:1", "input": CANARY, "store": True}
    assert daemon.owner.post("/v1/responses", json=body).status_code == 200
    form = {"file": ("a.jsonl", json.dumps({"x": CANARY}).encode())}
    sent = daemon.owner.post("/v1/files", files=form, data={"purpose": "batch"})
    assert sent.status_code == 200, sent.text
    return daemon


def test_other_user_can_read_and_write_no_files(daemon: WatchedDaemon) -> None:
    open_home = daemon.home

    def find_readable() -> list[str]:
        found: list[str] = []
        for folder, folders, files in os.walk(open_home):
            for name in (*folders, *files):
                path = os.path.join(folder, name)  # noqa: PTH118
                try:
                    with open(path, "rb") as file:  # noqa: PTH123
                        content = file.read()
                except OSError:
                    continue
                found.append(os.path.relpath(path, open_home))
                if CANARY.encode() in content:
                    found.append(f"{found[-1]}: {CANARY}")
        return found

    def find_writable() -> list[str]:
        places = [open_home, *(path for path in open_home.rglob("*") if path.is_dir())]
        return [str(place) for place in places if os.access(place, os.W_OK)]

    mine = b"".join(path.read_bytes() for path in open_home.rglob("*") if path.is_file())
    assert CANARY.encode() in mine
    readable: list[str] = as_other_user(find_readable)
    assert as_other_user(find_writable) == []
    # Model weights are not secret, and other programs may share them.
    assert [name for name in readable if not name.startswith("models/")] == []


def test_other_user_is_refused_on_socket_and_port(daemon: WatchedDaemon) -> None:
    before = daemon.snapshot()

    def send_requests() -> dict[str, str]:
        return {
            "unix": ask(str(daemon.socket), "GET /health"),
            "health": ask(daemon.port, "GET /health"),
            "nothing": ask(daemon.port, "GET /nothing/is/here"),
            "model": ask(daemon.port, "GET /v1/models/echo:1"),
            "no model": ask(daemon.port, "GET /v1/models/none"),
            "end": ask(daemon.port, "POST /ingle/v1/shutdown"),
            "key": ask(daemon.port, "GET /v1/models", "Authorization: Bearer ingle-guess"),
        }

    got: dict[str, str] = as_other_user(send_requests)
    assert got.pop("unix") == "PermissionError"
    assert got.pop("key").startswith("HTTP/1.1 401 ")
    # The same message for existing and missing resources.
    answers = {answer.partition("\r\n\r\n")[2].replace("\\", "") for answer in got.values()}
    assert all(answer.startswith("HTTP/1.1 403 ") for answer in got.values())
    assert len({json.dumps(json.loads(answer)["error"]["message"]) for answer in answers}) <= 2
    assert CANARY not in str(got)
    assert "echo" not in str(got)
    assert daemon.snapshot() == before


def ask(where: int | str, line: str, *headers: str) -> str:
    """The whole response to one request, or the name of the error."""
    kind = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
    lines = [f"{line} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    try:
        with socket.socket(kind) as client:
            client.settimeout(10)
            client.connect(where if isinstance(where, str) else ("127.0.0.1", where))
            client.sendall("\r\n".join(lines).encode())
            answer = b""
            while part := client.recv(65536):
                answer += part
    except OSError as error:
        return type(error).__name__
    return answer.decode()


SECRETS = (
    "environ",
    "maps",
    "smaps",
    "auxv",
    "mem",
    "io",
    "cwd",
    "exe",
    "fd",
    "map_files",
    "stack",
)
"""Entries of /proc that only the owner of a process may read."""


def test_proc_reveals_nothing_about_daemon_and_workers(daemon: WatchedDaemon) -> None:
    processes = psutil.Process(daemon.process.pid).children(recursive=True)
    assert processes  # the worker
    pids = [daemon.process.pid, *(process.pid for process in processes)]

    def find_readable() -> dict[str, str]:
        found: dict[str, str] = {}
        for pid in pids:
            for name in SECRETS:
                path = f"/proc/{pid}/{name}"
                try:
                    if name in ("fd", "map_files"):
                        found[path] = str(list(Path(path).iterdir()))
                    elif name in ("cwd", "exe"):
                        found[path] = str(Path(path).readlink())
                    else:
                        with Path(path).open("rb") as file:
                            file.read(64)
                        found[path] = "read"
                except OSError:
                    continue
        return found

    assert as_other_user(find_readable) == {}
    # What all users can see of a process contains none of the owner's data.
    shown = b"".join(
        Path(f"/proc/{pid}/{name}").read_bytes()
        for pid in pids
        for name in ("cmdline", "comm", "status")
    )
    assert CANARY.encode() not in shown
    assert b"ingle-" not in shown
    # Other programs of the owner find no secret in a worker's environment either.
    for process in processes:
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert CANARY.encode() not in environment
        assert b"HF_TOKEN" not in environment


def test_owner_is_answered_while_other_users_hold_connections(
    daemon: WatchedDaemon,
) -> None:
    ready, release = os.pipe(), os.pipe()

    def crowd() -> int:
        held = [socket.create_connection(("127.0.0.1", daemon.port)) for _ in range(100)]
        os.write(ready[1], b"x")
        os.read(release[0], 1)
        return len(held)

    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(as_other_user(crowd)))
    thread.start()
    while not select.select([ready[0]], [], [], 0.1)[0]:
        assert thread.is_alive(), answers  # the other user's process failed
    try:
        mine = ask(daemon.port, "GET /health")
        assert mine.startswith("HTTP/1.1 200 "), mine
        assert daemon.owner.get("/health").status_code == 200
    finally:
        os.write(release[1], b"x")
        thread.join()
        for end in (*ready, *release):
            os.close(end)
    assert answers == [100]


@pytest.mark.parametrize("made", ["folder", "link", "file", "inner"])
def test_folders_in_tmp_of_another_user_are_refused(
    open_home: Path, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """The folder below /tmp that is used if the home's path is too long for a socket."""
    shared = open_home.parent / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("ingle.daemon.settings.paths.TEMPORARY", shared)
    monkeypatch.setattr(
        "ingle.daemon.settings.paths.private_temporary_folder",
        lambda temporary=shared: shared / "ingle-0",
    )
    ours = shared / "ingle-0"

    def prepare() -> None:
        match made:
            case "folder" | "inner":
                ours.mkdir(mode=0o777)
                ours.chmod(0o777)
            case "link":
                elsewhere = shared / "elsewhere"
                elsewhere.mkdir(mode=0o777)
                ours.symlink_to(elsewhere)
            case _:
                ours.write_text("")
        if made == "inner":
            (ours / "digest").mkdir(mode=0o700)

    as_other_user(prepare)
    before = sorted(str(path) for path in shared.rglob("*"))
    with pytest.raises(UnsafeFolder):
        make_private_folder(ours / "digest")
    assert sorted(str(path) for path in shared.rglob("*")) == before
    assert stat.S_ISLNK(ours.lstat().st_mode) or ours.stat().st_uid == OTHER


def test_client_refuses_a_socket_of_another_user(open_home: Path) -> None:
    """The prompt of `ingle run` must not reach a user who created the socket first."""
    runtime = open_home / "runtime"
    runtime.mkdir(parents=True)
    runtime.chmod(0o777)
    listening = os.pipe()

    def listen() -> int:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(runtime / "ingle.sock"))
            listener.listen()
            os.write(listening[1], b"x")
            listener.settimeout(20)
            served, _ = listener.accept()
            with served:
                served.settimeout(20)
                return len(served.recv(100))

    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(as_other_user(listen)))
    thread.start()
    while not select.select([listening[0]], [], [], 0.1)[0]:
        assert thread.is_alive(), answers
    runtime.joinpath("ingle.sock").chmod(0o777)
    environ = {**os.environ, "INGLE_HOME": str(open_home)}
    command = [sys.executable, "-P", "-m", "ingle.daemon.main", "run", "echo:1", CANARY]
    result = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    thread.join()
    for end in listening:
        os.close(end)
    assert answers == [0]
    assert result.returncode != 0
    assert "another user" in result.stderr
