"""A self-hosted server as a provider: llama-cpp-python's server with a real model."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import httpx2
import psutil
import pytest

from ingle.daemon.routing.ledger.egress_ledger import Ledger
from ingle.daemon.routing.ledger.ledger_verification import verify

KEY = "sk-own-5f1d77"


@pytest.fixture(scope="module")
def server(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    """The port of a server that requires a key."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    settings = tmp_path_factory.mktemp("server") / "settings.json"
    model = {"model": str(smollm2_path), "model_alias": "smol", "n_ctx": 1024, "seed": 1}
    settings.write_text(
        json.dumps({"host": "127.0.0.1", "port": port, "api_key": KEY, "models": [model]})
    )
    command = [sys.executable, "-m", "llama_cpp.server", "--config_file", str(settings)]
    with (settings.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5)
        except urllib.error.HTTPError:
            return  # it requires its key
        except OSError:
            time.sleep(0.1)
    pytest.fail("the server did not start")


def ingle(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    return subprocess.run(
        [sys.executable, "-P", "-m", "ingle.daemon.main", *arguments],
        input=stdin,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.model
def test_provider_test_answers_and_writes_the_ledger(server: int, ingle_home: Path) -> None:
    added = ingle(
        *("provider", "add", "rack", "--preset", "own", "--model", "smol"),
        *("--url", f"http://127.0.0.1:{server}/v1"),
    )
    assert added.returncode == 0, added.stderr
    refused = ingle("provider", "test", "rack")
    assert (refused.returncode, "does not accept the key" in refused.stderr) == (1, True)
    kept = ingle("provider", "key", "rack", stdin=f"{KEY}\n")
    assert kept.returncode == 0, kept.stderr
    assert KEY not in kept.stdout + kept.stderr
    tested = ingle("provider", "test", "rack", "--json")
    assert tested.returncode == 0, tested.stderr
    result = json.loads(tested.stdout)
    assert result["answer"].strip()
    ledger = Ledger(ingle_home / "state" / "ledger", ingle_home / "ledger-head.json")
    first, second = ledger.entries()
    assert (first.outcome, first.status) == ("refused", 401)
    assert (second.outcome, second.bytes_out, second.bytes_in) == (
        "complete",
        result["bytes_out"],
        result["bytes_in"],
    )
    assert verify(ledger).ok
    assert json.loads(ingle("ledger", "verify", "--json").stdout)["ok"]
    assert "rack/smol" in ingle("ledger").stdout
    offline = ingle("provider", "list", "--json")
    assert json.loads(offline.stdout)["providers"][0]["ready"]


@pytest.mark.slow
@pytest.mark.model
def test_key_is_only_in_its_file(server: int, ingle_home: Path) -> None:
    ingle("provider", "add", "rack", "--preset", "own", "--url", f"http://127.0.0.1:{server}/v1")
    ingle("provider", "key", "rack", "--file", stdin=KEY)
    command = [sys.executable, "-P", "-m", "ingle.daemon.main", "provider", "test", "rack"]
    environ = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    with subprocess.Popen(
        [*command, "--model", "smol"], env=environ, stdout=subprocess.PIPE
    ) as process:
        seen: list[str] = []
        while process.poll() is None:
            try:
                found = psutil.Process(process.pid)
                seen += [*found.cmdline(), *found.environ().values()]
            except psutil.Error:
                break
            time.sleep(0.05)
        assert process.wait(60) == 0
    assert seen
    assert not any(KEY in text for text in seen)
    holders = [
        path.name
        for path in ingle_home.rglob("*")
        if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert holders == ["provider-keys.json"]


class Relay(socketserver.ThreadingTCPServer):
    """A proxy before the server that records every byte it receives."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Relayed)
        self.upstream = port
        self.received = bytearray()
        self.connections = 0

    @property
    def port(self) -> int:
        return self.socket.getsockname()[1]


class _Relayed(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        relay = self.server
        assert isinstance(relay, Relay)
        client: socket.socket = self.request
        relay.connections += 1
        with socket.create_connection(("127.0.0.1", relay.upstream)) as upstream:
            back = threading.Thread(target=_copy, args=(upstream, client), daemon=True)
            back.start()
            with suppress(OSError):
                while data := client.recv(65536):
                    relay.received += data
                    upstream.sendall(data)
            with suppress(OSError):
                upstream.shutdown(socket.SHUT_WR)
            back.join(30)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture
def relay(server: int) -> Generator[Relay]:
    """A relay before the server."""
    with Relay(server) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def real_daemon(ingle_home: Path, model_cache: Path, relay: Relay) -> Generator[httpx2.Client]:
    """A client of a real daemon with SmolLM2 and the server as its provider."""
    ingle_home.mkdir(exist_ok=True)
    (ingle_home / "models").symlink_to(model_cache)
    address = f"http://127.0.0.1:{relay.port}/v1"
    ingle("provider", "add", "rack", "--preset", "own", "--url", address, "--model", "smol")
    ingle("provider", "key", "rack", "--file", stdin=KEY)
    environ = {**os.environ, "INGLE_PORT": "-1", "INGLE_CONTEXT": "1024"}
    command = [sys.executable, "-P", "-m", "ingle.daemon.main", "serve"]
    path = ingle_home / "runtime" / "ingle.sock"
    with (ingle_home / "serve.log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    transport = httpx2.HTTPTransport(uds=str(path))
    with httpx2.Client(transport=transport, base_url="http://localhost", timeout=120) as client:
        yield client
    process.terminate()
    process.wait(30)


@pytest.mark.slow
@pytest.mark.model
def test_sdk_routes_through_a_real_daemon(
    real_daemon: httpx2.Client, relay: Relay, ingle_home: Path
) -> None:
    import openai

    client = openai.OpenAI(
        base_url="http://localhost/v1", api_key="x", http_client=real_daemon, max_retries=0
    )
    question = "How do tides work?"
    stream = client.chat.completions.create(
        model="rack/smol",
        messages=[{"role": "user", "content": question}],
        stream=True,
        max_completion_tokens=12,
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert text.strip()
    assert question.encode() in relay.received
    sent = len(relay.received)

    card = "My card is 4539 5787 6362 1486, is it valid?"
    with pytest.raises(openai.PermissionDeniedError):
        client.chat.completions.create(
            model="rack/smol", messages=[{"role": "user", "content": card}]
        )
    answer = client.chat.completions.create(
        model="auto", messages=[{"role": "user", "content": card}], max_completion_tokens=4
    )
    assert answer.model == "smollm2:135m"
    assert (len(relay.received), relay.connections) == (sent, 1)

    entries = real_daemon.get("/ingle/v1/ledger").json()["entries"]
    assert [entry["bytes_out"] for entry in entries] == [sent]
    assert real_daemon.get("/ingle/v1/ledger/verify").json()["ok"]
    workers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "ingle.backends.worker" in (process.info["cmdline"] or [])
    ]
    assert workers
    for worker in workers:
        with suppress(psutil.Error):
            assert KEY not in " ".join([*worker.environ().values(), *worker.cmdline()])
    holders = [
        path.relative_to(ingle_home).as_posix()
        for path in ingle_home.rglob("*")
        if path.is_file() and not path.is_symlink() and KEY.encode() in path.read_bytes()
    ]
    assert holders == ["state/provider-keys.json"]
