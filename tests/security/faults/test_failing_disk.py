"""A disk that fails: each promised write becomes an error of its protocol, or is on the disk."""

from __future__ import annotations

import errno
import hashlib
import json
import secrets
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.harness.power_cut.disk import Disk, Faults

if TYPE_CHECKING:
    from .conftest import FaultDaemon, MakeDaemon

FAULTS = {
    "fsync": errno.EIO,
    "write short": errno.ENOSPC,
    "rename": errno.EIO,
    "create mkdir": errno.ENOSPC,
    "unlink": errno.EIO,
}
CODES = ("disk_full", "storage_unusable", "server_error", "502", "507")
"""Of the stream of a response, and statuses of Ollama's API, which has no codes."""
MOST_CALLS = 60

OnDisk = dict[Path, bytes]
Promise = Callable[[OnDisk], bool]
"""Whether what was acknowledged is in the files that a power cut leaves."""
Request = Callable[["Requests"], "Promise | str"]
"""Makes one request; returns its promise, or the code of the error that it got."""


class Requests:
    """Requests that promise something, each with what has to be on the disk afterwards."""

    def __init__(self, daemon: FaultDaemon) -> None:
        self._http, self._home = daemon.http, daemon.home.resolve()

    def respond(self) -> Promise | str:
        """A stored response, in one piece."""
        answer = self._http.post("/v1/responses", json=_question(word := secrets.token_hex(8)))
        return _code(answer) or self._response(answer.json()["id"], word)

    def respond_as_stream(self) -> Promise | str:
        """A stored response, as a stream."""
        body = {**_question(word := secrets.token_hex(8)), "stream": True}
        with self._http.stream("POST", "/v1/responses", json=body) as answer:
            answer.read()
        if code := _code(answer):
            return code
        *_, last = (line for line in answer.text.splitlines() if line.startswith("data: {"))
        event = json.loads(last[6:])
        if event["type"] == "response.completed":
            return self._response(event["response"]["id"], word)
        return event["response"]["error"]["code"]

    def respond_in_background(self) -> Promise | str:
        """A response whose id is acknowledged before it is complete."""
        body = {**_question(word := secrets.token_hex(8)), "background": True}
        answer = self._http.post("/v1/responses", json=body)
        return _code(answer) or self._response(answer.json()["id"], word)

    def upload(self) -> Promise | str:
        """A file."""
        content = secrets.token_bytes(20_000)
        form: Any = {"file": ("f", content)}
        answer = self._http.post("/v1/files", files=form, data={"purpose": "user_data"})
        if code := _code(answer):
            return code
        path = self._home / "state/files" / answer.json()["id"]
        return lambda disk: (
            disk.get(path.with_suffix(".bin")) == content and path.with_suffix(".json") in disk
        )

    def batch(self) -> Promise | str:
        """A batch of an uploaded file."""
        line = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {}}
        form: Any = {"file": ("f", json.dumps(line).encode())}
        stored = self._http.post("/v1/files", files=form, data={"purpose": "batch"})
        if code := _code(stored):
            return code
        body = {"input_file_id": stored.json()["id"], "endpoint": "/v1/completions"}
        answer = self._http.post("/v1/batches", json=body)
        if code := _code(answer):
            return code
        path = self._home / "state/batches" / f"{answer.json()['id']}.json"
        return lambda disk: body["input_file_id"] in disk.get(path, b"").decode()

    def blob(self) -> Promise | str:
        """A file that may become a model."""
        content = secrets.token_bytes(20_000)
        digest = hashlib.sha256(content).hexdigest()
        answer = self._http.post(f"/api/blobs/sha256:{digest}", content=content)
        path = self._home / "models/.blobs" / digest
        return _code(answer) or (lambda disk: disk.get(path) == content)

    def copy(self) -> Promise | str:
        """A model under another name."""
        name = f"copy{secrets.token_hex(4)}"
        answer = self._http.post("/api/copy", json={"source": "echo:1", "destination": name})
        folder = self._home / "models" / name / "latest"
        return _code(answer) or (
            lambda disk: (
                disk.get(folder / "model.gguf") == b"GGUF"
                and name.encode() in disk.get(folder / "manifest.json", b"")
            )
        )

    def delete_response(self) -> Promise | str:
        """A response that is to be forgotten."""
        response_id = self._http.post("/v1/responses", json=_question("a")).json().get("id")
        return self._deleted("/v1/responses", response_id, "state/responses", ".json")

    def delete_file(self) -> Promise | str:
        """A file that is to be forgotten."""
        form: Any = {"file": ("f", b"content")}
        answer = self._http.post("/v1/files", files=form, data={"purpose": "user_data"})
        return self._deleted("/v1/files", answer.json().get("id"), "state/files", ".bin")

    def _deleted(self, route: str, name: str | None, folder: str, suffix: str) -> Promise | str:
        if name is None:
            return CODES[0]
        code = _code(self._http.delete(f"{route}/{name}"))
        path = self._home / folder / f"{name}{suffix}"
        return code or (lambda disk: path not in disk)

    def _response(self, response_id: str, word: str) -> Promise:
        path = self._home / "state/responses" / f"{response_id}.json"
        return lambda disk: word in disk.get(path, b"").decode()


REQUESTS: list[Request] = [
    Requests.respond,
    Requests.respond_as_stream,
    Requests.respond_in_background,
    Requests.upload,
    Requests.batch,
    Requests.blob,
    Requests.copy,
    Requests.delete_response,
    Requests.delete_file,
]


def _question(word: str) -> dict[str, Any]:
    return {"model": "echo:1", "input": word}


def _code(answer: httpx.Response) -> str:
    """The code of an error; empty for a success."""
    if answer.is_success:
        return ""
    error = answer.json()["error"]
    return error.get("code", "") if isinstance(error, dict) else str(answer.status_code)


SLOW = [request for request in REQUESTS if request not in (Requests.upload, Requests.blob)]


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(request, marks=[pytest.mark.slow] * (request in SLOW), id=request.__name__)
        for request in REQUESTS
    ],
)
def test_failing_call_is_an_error_or_loses_nothing(
    make_daemon: MakeDaemon, recorder: Path, tmp_path: Path, request_of: Request
) -> None:
    """Let the nth call of a kind fail, once or from then on, until the request makes no more."""
    daemon = make_daemon({"reply": "Here."}, home=tmp_path / "home")
    daemon.kill()
    disk, faults = Disk(daemon.home, tmp_path / "record"), Faults(tmp_path / "faults")
    daemon.environ |= disk.environ(recorder, faults)
    daemon.restart()
    requests = Requests(daemon)
    for calls, times in product(FAULTS, (1, -1)):
        for number in range(MOST_CALLS):
            faults.fail(calls, FAULTS[calls], after=number, times=times)
            outcome = request_of(requests)
            hits = faults.hits
            faults.stop()
            if callable(outcome):
                assert outcome(disk.durable()), f"acknowledged and lost: {calls}, call {number}"
            else:
                assert outcome in CODES, f"{calls}, call {number}"
            if not hits:
                break
        else:
            raise AssertionError("there was always one more call")
        assert callable(promise := request_of(requests))
        assert promise(disk.durable())
    assert "Traceback" not in daemon.log.read_text()
