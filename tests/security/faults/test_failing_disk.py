"""A disk that fails: each promised write becomes an error of its protocol, or is on the disk."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.routing.detectors.finding import Sensitivity
from ingle.daemon.routing.ledger.egress_ledger import Ledger
from ingle.daemon.routing.ledger.ledger_verification import verify
from ingle.daemon.routing.policy.conversation_taint import TaintStore
from ingle.tui.history.history_store import open_history
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
CODES = ("disk_full", "storage_unusable", "server_error", "507")
"""Of the stream of a response too, and the status of Ollama's API, which has no codes."""
NUMBERS = [*range(12), *range(12, 40, 4), *range(40, 400, 20)]
"""Before the call that fails so many succeed; a commit of chats makes many writes."""

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
        line: dict[str, Any] = {"custom_id": "a", "method": "POST", "body": {}}
        line["url"] = "/v1/completions"
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
    error: dict[str, str] | str = answer.json()["error"]
    return str(answer.status_code) if isinstance(error, str) else error["code"]


SLOW = [request for request in REQUESTS if request != Requests.upload]


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(request, marks=[pytest.mark.slow] * (request in SLOW), id=request.__name__)
        for request in REQUESTS
    ],
)
def test_failing_call_is_an_error_or_loses_nothing(
    make_daemon: MakeDaemon,
    recorder: Path,
    tmp_path: Path,
    request_of: Request,
    tries: Callable[[int], None],
) -> None:
    """Let the nth call of a kind fail, once or from then on, until the request makes no more."""
    daemon = make_daemon({"reply": "Here."}, home=tmp_path / "home")
    daemon.kill()
    disk, faults = Disk(daemon.home, tmp_path / "record"), Faults(tmp_path / "faults")
    daemon.environ |= disk.environ(recorder, faults)
    daemon.restart()
    requests, attempts = Requests(daemon), 0
    for calls, times in product(FAULTS, (1, -1)):
        for number in NUMBERS:
            faults.fail(calls, FAULTS[calls], after=number, times=times)
            outcome = request_of(requests)
            hits = faults.hits
            attempts += bool(hits)
            faults.stop()
            if callable(outcome):
                assert outcome(disk.survivors()), f"acknowledged and lost: {calls}, call {number}"
            else:
                assert outcome in CODES, f"{calls}, call {number}"
            if not hits:
                break
        else:
            raise AssertionError("there was always one more call")
        assert callable(promise := request_of(requests))
        assert promise(disk.survivors())
    assert "Traceback" not in daemon.log.read_text()
    tries(attempts)


STORES = """
import json, secrets, sys
from pathlib import Path
from ingle.backends.remote.clearance import Clearance
from ingle.backends.remote.receipt import Outcome, Receipt, TokenUsage
from ingle.daemon.access.api_keys import KeyStore
from ingle.daemon.routing.detectors.finding import Sensitivity
from ingle.daemon.routing.ledger.egress_ledger import BudgetReservation, Ledger
from ingle.daemon.routing.policy.conversation_taint import TaintStore
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.history.history_store import open_history

home = Path(sys.argv[1])
keys = KeyStore(home / "state/keys.json")
ledger = Ledger(home / "ledger", home / "ledger-head.json")
clearance = Clearance(digest="0", provider="p", model="m", verdict="cloud", rule="r")
receipt = Receipt(
    bytes_sent=1, bytes_received=1, seconds=1.0, outcome=Outcome.COMPLETE, status=200, attempts=1,
    digests=(), usage=TokenUsage(),
)
marks = TaintStore(home / "state/routing/taint.db")
store = open_history(home / "chats", lambda text: None)

def key():
    record, _ = keys.create()
    return record.id

def entry():
    intent = ledger.intend(clearance, BudgetReservation(tokens=1, cost=None, currency="USD"))
    ledger.settle(intent, receipt, 0.25)
    return intent.seq

def mark():
    trace = secrets.token_bytes(32)
    marks.mark([trace], Sensitivity.NEVER)
    return trace.hex()

def answer():
    store._writer.wake()  # it would wait for two seconds after a failure
    chat = Chat()
    store.add_chat(chat)
    answer = chat.add(Message(role="assistant"))
    store.add_message(chat.id, answer)
    for word in "one two three".split():
        store.append(answer.id, word + " ")
        if not store.flush(10):
            raise OSError("not written")
    store.end_message(answer.id, "answered", MessageFacts())
    if not store.flush(10):
        raise OSError("not written")
    return answer.id

for line in sys.stdin:
    try:
        outcome = ["kept", globals()[line.strip()]()]
    except Exception as error:
        outcome = ["error", repr(error)]
    print(json.dumps(outcome), flush=True)
"""


class Stores:
    """A program that writes the stores of a home, one record for each line that it reads."""

    def __init__(self, folder: Path, recorder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.disk, self.faults = Disk(self.home, folder / "record"), Faults(folder / "faults")
        self._copy = folder / "copy"
        self._log = (folder / "log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", STORES, self.home],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
            env={**os.environ, **self.disk.environ(recorder, self.faults)},
        )

    def write(self, kind: str) -> tuple[bool, str]:
        """Write a record; whether it was acknowledged, and its name or the error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{kind}\n")
        outcome, name = json.loads(self.process.stdout.readline())
        return outcome == "kept", str(name)

    def has(self, kind: str, name: str) -> bool:
        """Whether a record is in the files that a power cut leaves, exactly once and whole."""
        shutil.rmtree(self._copy, ignore_errors=True)
        for path, content in self.disk.survivors().items():
            target = self._copy / path.relative_to(self.home.resolve())
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.name.endswith("-shm"):
                target.touch(0o600)
                target.write_bytes(content)
        match kind:
            case "key":
                there = KeyStore(self._copy / "state/keys.json").list()
                return [record.id for record in there].count(name) == 1
            case "entry":
                ledger = Ledger(self._copy / "ledger", self._copy / "ledger-head.json")
                found = [entry.outcome for entry in ledger.entries() if entry.seq == int(name)]
                return found == ["complete"] and not verify(ledger).problems
            case "mark":
                marks = TaintStore(self._copy / "state/routing/taint.db")
                try:
                    return marks.strictest([bytes.fromhex(name)]) is Sensitivity.NEVER
                finally:
                    marks.close()
            case _:
                troubles: list[str] = []
                store = open_history(self._copy / "chats", troubles.append)
                try:
                    return store.message_text(name) == "one two three " and not troubles
                finally:
                    store.close()

    def end(self) -> str:
        """End the program; returns what it has written to its log."""
        self.process.communicate(timeout=120)
        self._log.seek(0)
        with self._log:
            return self._log.read()


@pytest.mark.parametrize("kind", ["key", "entry", "mark", "answer"])
def test_store_acknowledges_only_what_is_on_the_disk(
    recorder: Path, tmp_path: Path, kind: str, tries: Callable[[int], None]
) -> None:
    """Let the nth call of a kind fail, once or from then on, until a record makes no more."""
    stores, attempts = Stores(tmp_path, recorder), 0
    for calls, times in product(FAULTS, (1, -1)):
        for number in NUMBERS:
            stores.faults.fail(calls, FAULTS[calls], after=number, times=times)
            acknowledged, name = stores.write(kind)
            hits = stores.faults.hits
            attempts += bool(hits)
            stores.faults.stop()
            if acknowledged:
                assert stores.has(kind, name), f"acknowledged and lost: {calls}, call {number}"
            if not hits:
                assert acknowledged, name
                break
        else:
            raise AssertionError("there was always one more call")
    assert stores.end() == ""
    tries(attempts)
