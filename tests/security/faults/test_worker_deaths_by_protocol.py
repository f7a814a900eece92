"""Worker deaths as seen by the clients of each protocol: a retry, or an error in its shape."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import FaultDaemon, MakeDaemon

MESSAGES = [{"role": "user", "content": "Say it."}]
REPLY = "An answer that is a little longer than its first words."

Request = tuple[str, dict[str, Any]]
OpenAI: Request = ("/v1/chat/completions", {"model": "echo:1", "messages": MESSAGES})
PROTOCOLS: dict[str, Request] = {
    "openai": OpenAI,
    "completions": ("/v1/completions", {"model": "echo:1", "prompt": "Say it."}),
    "responses": ("/v1/responses", {"model": "echo:1", "input": "Say it."}),
    "anthropic": ("/v1/messages", {"model": "echo:1", "messages": MESSAGES, "max_tokens": 100}),
    "ollama": ("/api/chat", {"model": "echo:1", "messages": MESSAGES}),
    "llama.cpp": ("/completion", {"model": "echo:1", "prompt": "Say it.", "n_predict": 100}),
    "lm_studio": ("/api/v0/chat/completions", {"model": "echo:1", "messages": MESSAGES}),
}


def error_of(protocol: str, body: dict[str, Any]) -> str:
    """The message of an error in this protocol's shape."""
    if protocol == "ollama":
        return body["error"]
    if protocol == "anthropic":
        assert body["type"] == "error"
        assert body["error"]["type"] in ("api_error", "overloaded_error")
    elif protocol == "llama.cpp":
        assert body["error"]["code"] == 503
    elif protocol == "responses" and "response" in body:
        assert body["response"]["status"] == "failed"
        return body["response"]["error"]["message"]
    return body["error"]["message"]


def data_of(text: str) -> list[dict[str, Any]]:
    """Every JSON object of a stream of server-sent events or lines."""
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


def ask(daemon: FaultDaemon, protocol: str, *, stream: bool) -> tuple[int, str]:
    """The status and the whole body of the response."""
    path, body = PROTOCOLS[protocol]
    answer = daemon.http.post(path, json={**body, "stream": stream})
    return answer.status_code, answer.text


def cases(*not_slow: tuple[str, bool]) -> list[Any]:
    """Each protocol, streamed or not; all but the given cases are marked slow."""
    every = [(name, stream) for name in PROTOCOLS for stream in (True, False)]
    return [
        pytest.param(*case, marks=() if case in not_slow else pytest.mark.slow) for case in every
    ]


@pytest.mark.parametrize(("protocol", "stream"), cases(("openai", True)))
def test_worker_death_before_the_first_token_is_retried(
    make_daemon: MakeDaemon, tmp_path: Path, protocol: str, stream: bool
) -> None:
    once = f"worker.prefill=signal:SEGV,once:{tmp_path / 'once'}"
    daemon = make_daemon({"reply": REPLY}, failpoints=once)
    status, text = ask(daemon, protocol, stream=stream)
    assert status == 200
    assert "SIGSEGV" not in text
    if not stream:
        assert REPLY in text
    assert daemon.metric("ingle_worker_deaths_total") == 1
    assert daemon.metric("ingle_worker_second_tries_total") == 1
    assert "Retrying a request" in daemon.log.read_text()


@pytest.mark.parametrize(("protocol", "stream"), cases(("anthropic", True)))
def test_worker_death_during_decode_ends_a_stream_with_an_error(
    make_daemon: MakeDaemon, tmp_path: Path, protocol: str, stream: bool
) -> None:
    once = f"worker.decode=signal:ABRT@6,once:{tmp_path / 'once'}"
    daemon = make_daemon({"reply": REPLY, "step_seconds": 0.02}, failpoints=once)
    status, text = ask(daemon, protocol, stream=stream)
    assert status == 200
    if stream:
        assert "SIGABRT" in error_of(protocol, data_of(text)[-1])
    else:
        assert REPLY in text
    assert REPLY in ask(daemon, protocol, stream=False)[1]


@pytest.mark.parametrize(("protocol", "stream"), cases(("ollama", False)))
def test_second_worker_death_is_an_error_in_the_protocols_shape(
    make_daemon: MakeDaemon, protocol: str, stream: bool
) -> None:
    daemon = make_daemon({"reply": REPLY}, failpoints="worker.prefill=signal:BUS")
    pid = daemon.process.pid
    status, text = ask(daemon, protocol, stream=stream)
    body: dict[str, Any] = data_of(text)[-1] if status == 200 else json.loads(text)
    assert "SIGBUS" in error_of(protocol, body)
    assert status in (200, 503)
    assert daemon.metric("ingle_worker_deaths_total") == 2
    assert daemon.process.poll() is None
    assert daemon.http.get("/ingle/v1/status").json()["pid"] == pid
    daemon.until(lambda: daemon.zombies() == [])


@pytest.mark.slow
def test_repeated_deaths_quarantine_the_model_until_unload(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon({"reply": REPLY, "kills": "deadly"})
    deadly = {"model": "echo:1", "prompt": "deadly", "max_tokens": 9}
    assert daemon.http.post("/v1/completions", json=deadly).status_code == 503
    quarantined = daemon.http.post("/v1/completions", json=deadly)  # the third and last death
    assert quarantined.status_code == 503
    assert quarantined.json()["error"]["code"] == "model_quarantined"
    assert 0 < int(quarantined.headers["retry-after"]) <= 60
    (model,) = daemon.models()
    assert model["state"] == "failed"
    assert 0 < model["quarantined_for"] <= 60
    assert "SIGKILL" in model["error"]
    entry = daemon.http.get("/ingle/v1/models").json()["models"][0]
    assert entry["name"] == "echo:1"
    assert entry["quarantined_for"] > 0
    assert "SIGKILL" in entry["error"]
    assert daemon.metric("ingle_model_quarantine_seconds") > 0
    shown = _ps(daemon)
    assert "quarantined" in shown
    assert "`ingle unload echo:1`" in shown
    assert json.loads(_ps(daemon, "--json"))["models"][0]["quarantined_for"] > 0
    daemon.http.post("/ingle/v1/unload", json={"model": "echo:1"}).raise_for_status()
    assert ask(daemon, "completions", stream=False)[0] == 200


@pytest.mark.slow
def test_requests_beside_a_deadly_request_are_retried(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon({"reply": REPLY, "kills": "deadly", "step_seconds": 0.05})
    statuses: dict[str, list[int]] = {"deadly": [], "harmless": []}

    def send(prompt: str) -> None:
        body = {"model": "echo:1", "prompt": prompt, "max_tokens": 30}
        statuses[prompt].append(daemon.http.post("/v1/completions", json=body).status_code)

    threads = [
        threading.Thread(target=send, args=(name,)) for name in ["harmless"] * 6 + ["deadly"]
    ]
    for thread in threads[:-1]:
        thread.start()
    daemon.until(lambda: any(model["running"] == 6 for model in daemon.models()))
    threads[-1].start()
    for thread in threads:
        thread.join()
    assert statuses == {"deadly": [503], "harmless": [200] * 6}


def _ps(daemon: FaultDaemon, *arguments: str) -> str:
    code = "import sys; from ingle.daemon.main import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-P", "-c", code, "ps", *arguments],
        env=daemon.environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
