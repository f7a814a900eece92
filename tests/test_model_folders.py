"""Safetensors folders end to end: CLI, daemon, worker and engine."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
CAPITAL = "What is the capital of France?"

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ingle(ingle_home: Path, tmp_path: Path) -> Iterator[Command]:
    """Runs commands in a separate home, whose daemon ends with the test."""
    environ = {**os.environ, "INGLE_HOME": str(ingle_home), "INGLE_PORT": "0"}

    def run(*words: str, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [INGLE, *words],
            env=environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            timeout=240,
        )

    yield run
    run("stop")


@pytest.mark.slow
@pytest.mark.model
def test_run_with_a_safetensors_folder(ingle: Command, smollm2_folder: Path) -> None:
    named = f"./{smollm2_folder.name}"
    done = ingle("run", named, CAPITAL, "--temperature", "0", cwd=smollm2_folder.parent)
    assert "Paris" in done.stdout, done.stderr
    (loaded,) = json.loads(ingle("ps", "--json").stdout)["models"]
    assert (loaded["name"], loaded["engine"]) == (str(smollm2_folder), "cuda")
    listed = json.loads(ingle("list", "--json").stdout)["models"]
    assert (listed[0]["name"], listed[0]["quantization"]) == (str(smollm2_folder), "BF16")
    again = ingle("run", str(smollm2_folder), CAPITAL, "--temperature", "0", "--json")
    answer = json.loads(again.stdout)
    assert answer["text"] == done.stdout.rstrip("\n")
    assert answer["cached_tokens"] > 0


@pytest.mark.slow
def test_nf4_quantization_on_load(ingle: Command, make_folder: Callable[..., Path]) -> None:
    folder = str(make_folder())
    done = ingle("run", folder, "--raw", "ab", "--max-tokens", "4", "--quantize", "nf4")
    assert done.returncode == 0, done.stderr
    (loaded,) = json.loads(ingle("ps", "--json").stdout)["models"]
    assert loaded["quantize"] == "nf4"
    shown = ingle("show", folder).stdout
    assert "weights       put into NF4 on load" in shown


def test_damaged_folder_is_one_error_sentence(
    ingle: Command, make_folder: Callable[..., Path]
) -> None:
    folder = make_folder()
    (folder / "model-00002-of-00002.safetensors").write_bytes(b"\x08")
    for command in (("run", str(folder), "Hi"), ("show", str(folder))):
        done = ingle(*command)
        assert done.returncode == 1
        error, hint = done.stderr.splitlines()[-2:]
        assert error == f"Error: {folder}/model-00002-of-00002.safetensors is truncated."
        assert hint == "Download it again."
