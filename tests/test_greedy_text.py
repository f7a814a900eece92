"""Greedy text of both engines through the real daemon, equal except for near ties."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.model

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
NEAR = 0.5
"""In nats: rounding may swap two tokens whose log-probabilities differ by less."""

LIST = "apples, pears, plums, apples, pears, plums, apples, pears, plums, apples, pears,"
PROMPTS = [
    "The capital of France is",
    "Water boils at a temperature of",
    "The three primary colours are",
    "Once upon a time, in a small village by the sea,",
    "Dear Sir or Madam,\n\nI am writing to you because",
    "def fibonacci(n):\n",
    "SELECT name, age FROM",
    "Question: How many legs does a spider have?\nAnswer:",
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,",
    "The difference between a frog and a toad is that",
    "To make a cup of tea, first",
    "import numpy as np\n\ndef softmax(x):\n",
    "Es war einmal ein König, der hatte",
    "La ville de Paris est",
    "{'name': 'Ada', 'born': 1815, 'died':",
    "The quick brown fox jumps over the lazy dog. The quick brown fox",
    LIST,
    "A haiku about rain:\n",
    "If all roses are flowers and some flowers fade quickly, then",
    "for (int i = 0; i < n; i++) {\n",
]


@dataclass(frozen=True)
class Answer:
    """Tokens as text, with the top log-probabilities of each position."""

    tokens: list[str]
    likely: list[dict[str, float]]
    cached: int
    accepted: int


class Daemon:
    """`ingle serve` with SmolLM2 in its store, loaded into either engine."""

    def __init__(self, home: Path) -> None:
        socket = home / "ingle.sock"
        self.process = subprocess.Popen(
            [INGLE, "serve", "--port", "-1", "--socket", str(socket)],
            env={**os.environ, "INGLE_HOME": str(home), "INGLE_SLOTS": "16"},
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while not socket.exists():
            assert time.monotonic() < deadline, "the daemon does not listen"
            time.sleep(0.01)
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(socket)),
            base_url="http://localhost",
            timeout=300,
        )

    def load(self, engine: str) -> None:
        """Load the model into this engine, with an empty cache."""
        self.post("/ingle/v1/unload")
        loaded = self.post("/ingle/v1/load", model="smollm2", engine=engine, context=4096)
        (model,) = self._http.get("/ingle/v1/status").json()["models"]
        assert model["engine"] == engine, loaded

    def complete(self, prompt: str, *, tokens: int, speculation: bool = True) -> Answer:
        """The greedy continuation, `tokens` long."""
        answer = self.post(
            "/v1/completions",
            model="smollm2",
            prompt=prompt,
            max_tokens=tokens,
            temperature=0,
            repeat_penalty=1,  # the catalog's own value changes the greedy choice
            logprobs=20,
            ignore_eos=True,
            ingle={"private": True, "speculation": speculation},
        )
        logprobs, usage = answer["choices"][0]["logprobs"], answer["usage"]
        return Answer(
            logprobs["tokens"],
            logprobs["top_logprobs"],
            usage["prompt_tokens_details"]["cached_tokens"],
            usage["completion_tokens_details"]["accepted_prediction_tokens"],
        )

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self._http.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    def stop(self) -> None:
        self._http.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def daemon(smollm2_path: Path) -> Iterator[Daemon]:
    home = smollm2_path.parents[3] / f"greedy-{os.getpid()}"  # hard links need one file system
    shutil.copytree(
        smollm2_path.parents[2],
        home / "models",
        copy_function=os.link,
        ignore=shutil.ignore_patterns(".locks"),
    )
    running = Daemon(home)
    yield running
    running.stop()
    shutil.rmtree(home)


def agree(found: Answer, expected: Answer) -> bool:
    """Whether all tokens are equal; the first difference must be a near tie.

    The text after a difference has another prefix, and is not compared.
    """
    assert len(found.tokens) == len(expected.tokens)
    for place, (token, other) in enumerate(zip(found.tokens, expected.tokens, strict=True)):
        if token != other:
            likely = expected.likely[place]
            difference = likely[other] - likely.get(token, -99.0)
            assert difference < NEAR, (expected.tokens[:place], token, other, difference)
            return False
    return True


@pytest.mark.slow
def test_greedy_text_equals_llama_cpp(daemon: Daemon) -> None:
    daemon.load("llama.cpp")
    expected = [daemon.complete(prompt, tokens=8) for prompt in PROMPTS]
    daemon.load("cuda")
    found = [daemon.complete(prompt, tokens=8) for prompt in PROMPTS]
    same = [agree(*pair) for pair in zip(found, expected, strict=True)]
    assert sum(same) > len(PROMPTS) / 2


@pytest.mark.slow
def test_long_greedy_text_of_both_engines(daemon: Daemon) -> None:
    daemon.load("llama.cpp")
    expected = [daemon.complete(prompt, tokens=64) for prompt in PROMPTS]
    daemon.load("cuda")
    found = [daemon.complete(prompt, tokens=64) for prompt in PROMPTS]
    same = [agree(*pair) for pair in zip(found, expected, strict=True)]
    print(sum(same), "of", len(same), "the same to the end")


@pytest.mark.slow
def test_batching_caching_and_speculation_do_not_change_greedy_text(daemon: Daemon) -> None:
    daemon.load("cuda")
    baseline = [daemon.complete(prompt, tokens=48, speculation=False) for prompt in PROMPTS]
    assert sum(answer.accepted for answer in baseline) == 0

    speculative = [daemon.complete(prompt, tokens=48) for prompt in PROMPTS]
    assert sum(answer.accepted for answer in speculative) > 10

    # Long enough to be cached, without a common prefix.
    texts = [f"{1000 - i} {LIST * 4}\n{prompt}" for i, prompt in enumerate(PROMPTS)]
    fresh = [daemon.complete(text, tokens=24, speculation=False) for text in texts]
    assert max(answer.cached for answer in fresh) == 0
    cached = [daemon.complete(text, tokens=24, speculation=False) for text in texts]
    assert min(answer.cached for answer in cached) > 0

    daemon.load("cuda")
    with ThreadPoolExecutor(16) as threads:
        batched = list(threads.map(partial(daemon.complete, tokens=48), PROMPTS))

    kinds = {
        "speculative": zip(speculative, baseline, strict=True),
        "batched": zip(batched, baseline, strict=True),
        "cached": zip(cached, fresh, strict=True),
    }
    for kind, pairs in kinds.items():
        same = [agree(*pair) for pair in pairs]
        print(kind, sum(same), "of", len(same), "the same to the end")
        assert all(same)
