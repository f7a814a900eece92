"""A fake daemon that implements `docs/api.md` over a unix socket, and ways to run commands."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from importlib import metadata
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import msgspec
import pytest

from ingle.daemon.client.answer import Answer
from ingle.daemon.client.daemon_types import DeviceGauges, Status
from ingle.daemon.client.engine_types import EngineEntry
from ingle.daemon.client.generation_types import FinishedEvent
from ingle.daemon.client.model_types import LoadedModel, ModelEntries, ModelEntry, Removed
from ingle.daemon.client.routing_types import RoutingRoute, RoutingState
from ingle.daemon.settings.paths import Paths, find_paths

Json = dict[str, Any]
Step = tuple[str, Json] | threading.Event
"""An event to send, or an event to wait for first (cancellation ends the wait)."""

COMMAND = [sys.executable, "-P", "-m", "ingle.daemon.main"]


def encode_complete(kind: type[Answer], /, **fields: Any) -> Json:
    """JSON with every field of `kind`, as the daemon sends it."""
    return msgspec.to_builtins(kind(**fields))


def installed_model_entry(name: str = "smollm2:135m", **changes: Any) -> Json:
    entry: Json = {
        "name": name,
        "installed": True,
        "state": "stopped",
        "default": True,
        "size": 98362432,
        "parameters": 134515008,
        "quantization": "Q4_1",
        "architecture": "llama",
        "context": 8192,
        "licence": "Apache-2.0",
        "description": "A small model.",
        "path": "/models/SmolLM2-135M-Instruct.Q4_1.gguf",
        "chat": True,
        "task": "generate",
        "place": "",
        "same_as": None,
        "notes": [],
    }
    return encode_complete(ModelEntry, **entry | changes)


def finished(reason: str = "stop") -> tuple[str, Json]:
    return "finished", encode_complete(
        FinishedEvent,
        reason=reason,
        prompt_tokens=32,
        completion_tokens=21,
        cached_tokens=12,
        context=8192,
        queue_seconds=0.1,
        prompt_seconds=0.5,
        decode_seconds=2.0,
    )


class FakeDaemon:
    """State and recorded requests of the fake daemon; change it before the command runs."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.version = metadata.version("ingle")
        self.models: list[Json] = [installed_model_entry()]
        self.unusable: list[Json] = []
        self.pulls: list[Json] = []
        self.unfinished: list[Json] = []
        self.removal: Json = {}
        self.update: Json = {}
        self.loaded: list[Json] = []
        self.devices: list[Json] = []
        self.answer: list[Step] = [
            ("started", {"prompt_tokens": 32, "cached_tokens": 12, "context": 8192}),
            ("delta", {"text": "Hello", "tokens": 1}),
            ("delta", {"text": " wörld.", "tokens": 20}),
            finished(),
        ]
        self.pull: list[Step] = []
        self.warnings: list[str] = []
        self.missing: set[str] = set()
        self.routes: list[Json] = []
        self.passages: Json = {"passages": [], "files": 0}
        self.engines: list[Json] = []
        self.engine_offer: Json | None = None
        self.installation: list[Step] = []
        self.engine_check: Json = {}
        self.failure: tuple[int, Json] | None = None
        self.requests: list[tuple[str, str, Json | None]] = []
        self.cancelled = threading.Event()
        self.changed = threading.Condition()

    def requests_to(self, method: str, path: str) -> list[Json | None]:
        """The bodies of the requests with this method and path so far."""
        return [body for m, p, body in self.requests if (m, p) == (method, path)]

    def wait_for_request(self, method: str, path: str) -> None:
        """Block until such a request was received."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.requests_to(method, path), timeout=10)

    def status(self) -> Json:
        return encode_complete(
            Status,
            version=self.version,
            pid=os.getpid(),
            uptime=75.0,
            socket=str(self.paths.socket),
            address="127.0.0.1:4645",
            default_model="smollm2:135m",
            models=self.loaded_models(),
            pulls=self.pulls,
            devices=[encode_complete(DeviceGauges, **device) for device in self.devices],
        )

    def loaded_models(self) -> list[Json]:
        """The loaded models; fields that a test leaves out have the struct's defaults."""
        return [encode_complete(LoadedModel, **model) for model in self.loaded]


class Handler(BaseHTTPRequestHandler):
    """One connection to a `FakeDaemon`."""

    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.client_address = ("unix", 0)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Suppress the log lines of http.server."""

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _handle(self) -> None:
        daemon = cast("Server", self.server).daemon
        length = int(self.headers.get("Content-Length") or 0)
        body = cast("Json | None", json.loads(self.rfile.read(length)) if length else None)
        assert body is None or self.headers["Content-Type"] == "application/json"
        with daemon.changed:
            daemon.requests.append((self.command, self.path, body))
            daemon.changed.notify_all()
        if daemon.failure is not None and self.path not in {"/health", "/ingle/v1/status"}:
            self._json(*daemon.failure)
            return
        self._route(daemon, f"{self.command} {self.path}", body or {})

    def _route(self, daemon: FakeDaemon, route: str, body: Json) -> None:
        match route.split("/v1/")[-1] if "/ingle/v1/" in route else route:
            case "GET /health":
                self._json(200, {"status": "ok"})
            case "POST /v1/audio/speech":
                self._json(200, body["input"])
            case "status":
                self._json(200, daemon.status())
            case "models" if self.command == "POST":
                self._json(200, daemon.models[0])
            case "models" | "models?compare=true":
                entries = {
                    "models": daemon.models,
                    "unusable": daemon.unusable,
                    "pulls": daemon.pulls,
                    "unfinished": daemon.unfinished,
                }
                self._json(200, encode_complete(ModelEntries, **entries))
            case "routing":
                routes = [encode_complete(RoutingRoute, **route) for route in daemon.routes]
                self._json(200, encode_complete(RoutingState, routes=routes))
            case "documents/search":
                self._json(200, daemon.passages)
            case "engines" | "engines/decline":
                engines = [encode_complete(EngineEntry, **engine) for engine in daemon.engines]
                self._json(200, {"engines": engines, "offer": daemon.engine_offer})
            case "engines/check":
                self._json(200, daemon.engine_check)
            case "engines/install":
                self._stream(daemon, daemon.installation)
            case "pull" | "update/apply":
                self._stream(daemon, daemon.pull)
                daemon.missing.clear()
            case "update":
                self._json(200, daemon.update)
            case "pull/cancel" | "generations/gen-1/cancel":
                daemon.cancelled.set()
                self._json(200, {})
            case "unload":
                self._json(200, {"unloaded": [model["name"] for model in daemon.loaded]})
            case "load" | "generations" if body["model"] in daemon.missing:
                message = f"There is no model '{body['model']}' here."
                self._error(404, "model_not_found", message, "`ingle list` shows all.")
            case "load":
                loaded = next(iter(daemon.loaded), {"name": "smollm2:135m", "state": "ready"})
                self._json(
                    200, encode_complete(LoadedModel, **loaded | {"warnings": daemon.warnings})
                )
            case "generations":
                self._json(202, {"id": "gen-1", "model": "smollm2:135m"})
            case "generations/gen-1/events":
                self._stream(daemon, daemon.answer)
            case path if self.command == "GET" and path.startswith("models/"):
                self._model(daemon, unquote(path[len("models/") :].partition("?")[0]))
            case path if self.command == "DELETE":
                name = unquote(path.removeprefix("models/"))
                removal = daemon.removal or {"removed": name, "freed": 98362432}
                self._json(200, encode_complete(Removed, **removal))
            case path:
                self._error(404, "not_found", f"There is no {path}.", None)

    def _model(self, daemon: FakeDaemon, reference: str) -> None:
        """An entry by its path, its name, its name without the tag, or the alias `gpt-4o`."""
        if reference.startswith("/"):
            self._json(200, daemon.models[0] | {"name": reference})
            return
        wanted = "smollm2" if reference == "gpt-4o" else reference.lower()
        for entry in daemon.models:
            if wanted in (entry["name"], entry["name"].partition(":")[0]):
                self._json(200, entry)
                return
        message = f"There is no model '{reference}' here."
        self._error(404, "model_not_found", message, "`ingle list` shows all.")

    def _error(self, status: int, code: str, message: str, hint: str | None) -> None:
        self._json(status, {"error": {"code": code, "message": message, "hint": hint}})

    def _json(self, status: int, value: Json) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, daemon: FakeDaemon, steps: Sequence[Step]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._chunk(": hello\n\n")
        for number, step in enumerate(steps, 1):
            if isinstance(step, threading.Event):
                while not (step.wait(0.01) or daemon.cancelled.is_set()):
                    continue
                if daemon.cancelled.is_set():
                    step = finished("cancelled")
                else:
                    continue
            name, data = step
            self._chunk(f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        content = text.encode()
        try:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))
        except OSError:  # the client disconnected, as some tests want it to
            self.close_connection = True


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Serves a `FakeDaemon` on its socket."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self.daemon = daemon
        super().__init__(str(daemon.paths.socket), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect mid-stream, which some tests do."""
        if not isinstance(sys.exception(), OSError):
            traceback.print_exc()


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """The paths of a temporary ingle home, set in the environment; no daemon runs there."""
    for name in [name for name in os.environ if name.startswith("INGLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("INGLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    return find_paths(os.environ)


@pytest.fixture
def daemon(paths: Paths) -> Iterator[FakeDaemon]:
    """A fake daemon listening on the home's socket."""
    paths.make_private()
    small = FakeDaemon(paths)
    with Server(small) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield small
        small.cancelled.set()  # streams that wait for cancellation would block the shutdown
        server.shutdown()
        thread.join()


@pytest.fixture
def fake_serve() -> Path:
    """A program that imitates the startup of `ingle serve`."""
    return Path(__file__).parent / "stand_in_daemon.py"


@pytest.fixture
def ingle(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `ingle` as a process of its own: `ingle("run", "m", input="text")`."""

    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            capture_output=True,
            encoding="utf-8",
            timeout=30,
            check=False,
            **options,
        )

    return run


@pytest.fixture
def model_entry() -> Callable[..., Json]:
    """Create an entry of the model list, installed unless `changes` override it."""
    return installed_model_entry


@pytest.fixture
def finished_event() -> Callable[..., tuple[str, Json]]:
    """Create the last event of an answer."""
    return finished


@pytest.fixture
def command() -> list[str]:
    """The command line prefix that runs this `ingle`."""
    return COMMAND
