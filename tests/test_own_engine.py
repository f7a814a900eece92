"""The same GGUF file on either engine, end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.model

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")


class Commands:
    """The command line in a separate home."""

    def __init__(self, home: Path) -> None:
        self._environ = {**os.environ, "INGLE_HOME": str(home), "INGLE_PORT": "-1"}

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [INGLE, *words],
            env=self._environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=240,
        )

    def loaded(self) -> dict[str, Any]:
        (model,) = json.loads(self("ps", "--json").stdout)["models"]
        return model


@pytest.fixture
def ingle(ingle_home: Path) -> Iterator[Commands]:
    commands = Commands(ingle_home)
    yield commands
    commands("stop")


@pytest.mark.slow
def test_both_engines_give_the_same_answer(ingle: Commands, smollm2_path: Path) -> None:
    system = "You are a helpful assistant who answers every question in one short sentence."
    greedy = ("--temperature", "0", "--max-tokens", "16", "--system", system)
    ask = ("run", str(smollm2_path), *greedy, "What is the capital of France?")
    answers: list[str] = []
    for engine in ("cuda", "llama.cpp"):
        done = ingle(*ask, "--engine", engine)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout)
        loaded = ingle.loaded()
        assert loaded["engine"] == engine
        on_cpu = loaded["layers_on_gpu"] == 0
        assert ("since no GPU was found" in loaded["reason"]) is on_cpu
        if engine == "cuda":
            again = json.loads(ingle(*ask, "--json").stdout)
            assert again["text"] == done.stdout.rstrip("\n")
            assert again["cached_tokens"] > 0, "the engine that runs already is reused"
            assert f"engine        {engine}\n" in ingle("show", str(smollm2_path)).stdout
    assert answers[0] == answers[1]
    assert "Paris" in answers[0]


def test_cuda_engine_refuses_unsupported_architectures(ingle: Commands, minilm_path: Path) -> None:
    done = ingle("run", str(minilm_path), "--engine", "cuda", "Hi")
    assert done.returncode == 1
    assert "which only llama.cpp computes with.\n" in done.stderr
