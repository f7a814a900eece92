"""The KV store with a real model: a conversation survives its worker and its daemon."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

pytestmark = pytest.mark.model

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
STORY = "The lighthouse keeper counted the ships every evening, and wrote them into his book. " * 40
QUESTION = {"role": "user", "content": STORY + "\nWhat did he count?"}


class Home:
    """An INGLE_HOME with SmolLM2 in its store, and the daemons that run there one after another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "ingle.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [INGLE, "serve", "--port", "-1", "--socket", str(self.socket)]
        environ = {**os.environ, "INGLE_HOME": str(self.folder)}
        self.process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not self.socket.exists():
            assert time.monotonic() < deadline, "the daemon does not listen"
            time.sleep(0.01)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        psutil.wait_procs(family, timeout=5)
        self.socket.unlink(missing_ok=True)
        self.process = None

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        transport = httpx.HTTPTransport(uds=str(self.socket))
        with httpx.Client(transport=transport, base_url="http://d", timeout=120) as http:
            answer = http.post(path, json=body, headers={"host": "localhost"})
        answer.raise_for_status()
        return answer.json()

    def status(self) -> dict[str, Any]:
        transport = httpx.HTTPTransport(uds=str(self.socket))
        with httpx.Client(transport=transport, base_url="http://localhost") as http:
            (model,) = http.get("/ingle/v1/status").json()["models"]
        return model

    def chat(self, *messages: dict[str, str]) -> tuple[str, int, int]:
        """The answer, the number of prompt tokens, and how many of them were cached."""
        body = {"model": "smollm2", "messages": messages, "temperature": 0, "max_tokens": 24}
        answer = self.post("/v1/chat/completions", **body)
        usage = answer["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        return answer["choices"][0]["message"]["content"], usage["prompt_tokens"], cached

    @property
    def chunks(self) -> list[Path]:
        return list(self.folder.glob("state/kv/*/*.kv"))


@pytest.fixture
def home(smollm2_path: Path) -> Iterator[Home]:
    folder = smollm2_path.parents[3] / f"tiers-{os.getpid()}"  # hard links need one file system
    shutil.copytree(
        smollm2_path.parents[2],
        folder / "models",
        copy_function=os.link,
        ignore=shutil.ignore_patterns(".locks"),
    )
    home = Home(folder)
    home.start()
    yield home
    if home.process is not None:
        home.stop()
    shutil.rmtree(folder)


@pytest.mark.slow
def test_kv_cache_is_restored_after_unload_and_restart(home: Home) -> None:
    answer, prompt, cached = home.chat(QUESTION)
    assert prompt > 600
    assert cached == 0
    turn = [QUESTION, {"role": "assistant", "content": answer}]
    home.post("/ingle/v1/unload")
    assert home.chunks
    for file in home.chunks:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    follow_up = {"role": "user", "content": "And where did he write it?"}
    answer, later_prompt, cached = home.chat(*turn, follow_up)
    assert answer
    assert prompt - 32 <= cached < later_prompt
    assert home.status()["restored_tokens"] == cached

    home.stop()
    home.start()
    turn += [follow_up, {"role": "assistant", "content": answer}]
    _, _, cached = home.chat(*turn, {"role": "user", "content": "Thank you."})
    assert cached >= later_prompt - 32


@pytest.mark.slow
def test_kv_cache_saved_while_idle_survives_a_kill(home: Home) -> None:
    _, prompt, _ = home.chat(QUESTION)
    deadline = time.monotonic() + 120
    while home.status()["kv_disk_bytes"] < 20_000 * (prompt - 32):
        assert time.monotonic() < deadline, "nothing is saved"
        time.sleep(0.1)
    home.stop(signal.SIGKILL)
    home.start()
    _, _, cached = home.chat(QUESTION)
    assert cached >= prompt - 32
