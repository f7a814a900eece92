"""Private requests to a real daemon and model write nothing to disk, not even when they fail."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from ingle.daemon.settings.paths import find_paths

if TYPE_CHECKING:
    from .conftest import Traces

CANARY = "xylophone-7291"
STORY = (" once upon a time there was a lighthouse by the sea." * 24) + CANARY
"""Long enough to be written to disk."""
HEADERS = {"Ingle-Private": "1", "x-note": CANARY}
TOOL = {
    "name": f"get_{CANARY}",
    "description": CANARY,
    "parameters": {"type": "object", "properties": {CANARY: {"type": "string"}}},
}


@dataclass
class Served:
    """A daemon in its own process, and its output."""

    process: subprocess.Popen[bytes]
    client: httpx.Client
    model: str
    output: Path

    def post(self, path: str, body: Any, status: int = 200) -> httpx.Response:
        """Send a request, and check its status."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.client.post(
            path, content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == status, (path, answer.text[:500])
        return answer


@pytest.fixture
def served(ingle_home: Path, tmp_path: Path, smollm2_path: Path) -> Iterator[Served]:
    environment = {
        **os.environ,
        "INGLE_LOG_LEVEL": "debug",
        "INGLE_LOG_FORMAT": "json",
        "INGLE_ACCESS_LOG": "true",
        "INGLE_PORT": "-1",
        "INGLE_CONTEXT": "2048",
    }
    output = tmp_path / "output.txt"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "ingle.daemon.main", "serve"],
            stdout=file,
            stderr=file,
            cwd=tmp_path,
            env=environment,
        )
    path = find_paths(environment).socket
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(
        transport=transport, base_url="http://localhost", headers=HEADERS, timeout=60
    ) as client:
        _wait(path)
        yield Served(process, client, str(smollm2_path), output)
    if process.poll() is None:
        process.kill()
    process.wait()


def _wait(path: Path) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(path))
            return
        except OSError:
            assert time.monotonic() < end, "the daemon does not come up"
            time.sleep(0.02)


def send_requests_that_succeed(served: Served) -> None:
    """Send the canary through every protocol, in every part of a request."""
    model, messages = served.model, [{"role": "system", "content": CANARY}]
    messages.append({"role": "user", "content": f"Say {CANARY}.", "name": CANARY})
    served.post(
        f"/v1/chat/completions?note={CANARY}",
        {
            "model": model,
            "messages": messages,
            "max_tokens": 2,
            "tools": [{"type": "function", "function": TOOL}],
            "metadata": {"note": CANARY},
            "user": CANARY,
            "ingle": {"private": True, "conversation": CANARY},
        },
    )
    served.post("/v1/completions", {"model": model, "prompt": STORY, "max_tokens": 2})
    served.post(
        "/v1/responses",
        {
            "model": model,
            "input": CANARY,
            "instructions": CANARY,
            "max_output_tokens": 16,
            "store": True,
            "metadata": {"note": CANARY},
        },
    )
    served.post(
        "/v1/messages",
        {
            "model": model,
            "system": CANARY,
            "messages": [{"role": "user", "content": CANARY}],
            "max_tokens": 2,
        },
    )
    few = {"num_predict": 2}
    chat = [{"role": "user", "content": CANARY}]
    served.post("/api/chat", {"model": model, "messages": chat, "options": few, "stream": False})
    served.post("/api/generate", {"model": model, "prompt": CANARY, "options": few})
    served.post("/completion", {"prompt": CANARY, "n_predict": 2, "model": model})
    served.post("/api/v0/completions", {"model": model, "prompt": CANARY, "max_tokens": 2})
    served.post("/ingle/v1/routing/explain", {"text": f"{CANARY} is ill"})
    served.post("/tokenize", {"content": CANARY, "model": model})
    begun = served.post(
        "/ingle/v1/generations",
        {"model": model, "prompt": STORY, "max_tokens": 2, "private": True},
        202,
    )
    with served.client.stream("GET", f"/ingle/v1/generations/{begun.json()['id']}/events") as reply:
        assert reply.read()


def send_requests_that_fail(served: Served) -> None:
    """Requests that are refused, each with the canary where the error could quote it."""
    model = served.model
    served.post("/v1/chat/completions", f'{{"model": "{CANARY}'.encode(), 400)
    served.post("/v1/chat/completions", {"model": CANARY, "messages": []}, 400)
    served.post("/v1/completions", {"model": CANARY, "prompt": CANARY}, 404)
    served.post("/v1/completions", {"model": model, "prompt": CANARY, "n": CANARY}, 400)
    served.post("/v1/completions", b'{"prompt": "\xff' + CANARY.encode(), 400)
    served.post("/v1/completions", {"model": model, "prompt": CANARY, "grammar": CANARY}, 400)
    served.post("/v1/completions", {"model": model, "prompt": STORY * 100, "max_tokens": 2}, 400)
    served.post(f"/v1/{CANARY}?q={CANARY}", {"prompt": CANARY}, 404)
    served.post(f"/ingle/v1/generations/{CANARY}/cancel", {}, 404)
    image = base64.b64encode(CANARY.encode()).decode()
    content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}]
    body = {"model": model, "messages": [{"role": "user", "content": content}]}
    served.post("/v1/chat/completions", body, 400)
    files = {"file": (f"{CANARY}.jsonl", CANARY.encode())}
    assert served.client.post("/v1/files", files=files, data={}).status_code == 400
    assert served.client.get(f"/v1/files/{CANARY}").status_code == 404
    assert served.client.get(f"/v1/responses/{CANARY}").status_code == 404


def kill_the_worker(served: Served) -> None:
    """Kill the worker while it generates."""
    body = {
        "model": served.model,
        "prompt": STORY,
        "max_tokens": 1500,
        "stream": True,
        "ignore_eos": True,
    }
    with served.client.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        for child in psutil.Process(served.process.pid).children(recursive=True):
            child.kill()
        assert any("error" in line for line in lines)


@pytest.mark.slow
def test_private_requests_write_nothing_to_disk(
    served: Served, ingle_home: Path, traces: Traces, tmp_path: Path
) -> None:
    send_requests_that_succeed(served)
    send_requests_that_fail(served)
    kill_the_worker(served)
    served.post("/v1/completions", {"model": served.model, "prompt": CANARY, "max_tokens": 2})
    served.post("/ingle/v1/unload", {})
    served.post("/ingle/v1/shutdown", {}, 202)
    assert served.process.wait(30) == 0
    log = served.output.read_text()
    assert '"route":"/v1/chat/completions","status":400' in log, "requests are logged"
    assert " failed: " in log, "and the death of the worker"
    assert CANARY not in log
    assert traces(CANARY) == []
    assert not list(ingle_home.glob("state/kv/*/*.kv"))
    assert not list(ingle_home.glob("state/responses/*"))
    assert not list(tmp_path.glob("core*"))
    everywhere = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in everywhere if CANARY.encode() in path.read_bytes()] == []


@pytest.mark.slow
def test_requests_that_are_not_private_are_found_on_disk(
    served: Served, ingle_home: Path, traces: Traces
) -> None:
    """Proves that the search in the test above finds something."""
    served.client.headers["Ingle-Private"] = "no"
    body = {"model": served.model, "input": STORY, "max_output_tokens": 16}
    served.post("/v1/responses", body)
    served.post("/ingle/v1/unload", {})
    served.post("/ingle/v1/shutdown", {}, 202)
    assert served.process.wait(30) == 0
    assert traces(CANARY)
    assert list(ingle_home.glob("state/kv/*/*.kv"))
    assert CANARY not in served.output.read_text(), "not even then in the log"
