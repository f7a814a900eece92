"""One server under test: a process of its own on a port of its own, loaded with one model file."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from completion_client import Request

READY_WITHIN = 300.0
ANSWERED_WITHIN = 1800.0


@dataclass(frozen=True)
class Settings:
    """Settings that all servers of a comparison share."""

    threads: int
    slots: int
    """Streams that each can serve at once."""
    context: int
    """Tokens in the KV cache, shared by all streams."""
    speculation: str = "off"
    """Ingle's setting; the peers have none."""


@dataclass(frozen=True)
class Ask:
    """A request before it is put into a server's dialect: a raw prompt, or a chat."""

    tokens: int
    prompt: str = ""
    messages: Sequence[dict[str, str]] = ()
    schema: dict[str, Any] | None = None
    fixed_length: bool = True
    """Generate all `tokens`, ignoring end-of-generation tokens; not for chats."""


class Server(ABC):
    """Starts, stops and words requests for one kind of server."""

    name: ClassVar[str]
    can_ignore_eos: ClassVar[bool] = True

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = settings
        self.port = free_port()
        self.folder = folder / self.name
        self.folder.mkdir()
        self.model: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self, model: Path) -> list[str]:
        """Return the command line; the server must answer on `port`."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Version and settings, for the result file."""

    def environment(self) -> dict[str, str]:
        """Variables on top of ours."""
        return {}

    def start(self, model: Path) -> float:
        """Seconds until the model answers."""
        begin = time.perf_counter()
        self.model = model
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(model),
                env=os.environ | self.environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        while not self.ready():
            if self.process.poll() is not None or time.perf_counter() - begin > READY_WITHIN:
                tail = (self.folder / "log").read_bytes()[-2000:].decode(errors="replace")
                self.stop()
                raise RuntimeError(f"{self.name} did not start:\n{tail}")
            time.sleep(0.005)
        return time.perf_counter() - begin

    def ready(self) -> bool:
        """Whether the model is loaded."""
        return self.get("/health")

    def stop(self) -> None:
        """End it, kindly if it can."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def restart(self) -> float:
        """Stop, start again and load the same model; seconds for all of it."""
        assert self.model is not None
        begin = time.perf_counter()
        self.stop()
        self.start(self.model)
        return time.perf_counter() - begin

    def swap(self, other: Path) -> float:
        """Load another model in place of this one; seconds. Here by starting anew."""
        begin = time.perf_counter()
        self.stop()
        self.start(other)
        return time.perf_counter() - begin

    def request(self, ask: Ask) -> Request:
        """The request in this server's dialect: greedy, streamed, with usage."""
        body: dict[str, object] = {
            "model": self.model_name(),
            "max_tokens": ask.tokens,
            "temperature": 0,
            "top_k": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if ask.schema is not None:
            body["response_format"] = self.response_format(ask.schema)
        if ask.messages:
            return Request("/v1/chat/completions", body | {"messages": list(ask.messages)})
        if ask.fixed_length and self.can_ignore_eos:
            body["ignore_eos"] = True
        return Request("/v1/completions", body | {"prompt": ask.prompt})

    def response_format(self, schema: dict[str, Any]) -> dict[str, object]:
        """How a JSON schema is asked for."""
        return {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }

    def model_name(self) -> str:
        """Return the model's name in requests."""
        return "model"

    def get(self, path: str) -> bool:
        """Whether a GET is answered with 200."""
        return self._call("GET", path, None)[0] == 200

    def post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """The answer to a POST that has to succeed."""
        status, content = self._call("POST", path, json.dumps(body).encode())
        if status != 200:
            raise RuntimeError(f"{self.name} {path}: status {status}: {content.decode()[:300]}")
        return json.loads(content)

    def _call(self, method: str, path: str, content: bytes | None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWERED_WITHIN)
        try:
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def common(self) -> dict[str, object]:
        """The shared settings, for the result file."""
        return dict(asdict(self.settings))


def free_port() -> int:
    """Return a free TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
