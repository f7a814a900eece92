"""Adapters end to end: the command, the daemon's routes, and answers of one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.peft_adapters import merge_adapter, write_adapter, write_gguf_adapter
from tests.test_model_folders import Command, ingle

__all__ = ["ingle"]


@pytest.mark.slow
def test_an_adapter_is_a_model_that_shares_its_process(
    ingle: Command, make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    base = make_folder()
    adapter = write_adapter(tmp_path / "mine", base, 1)
    merged = merge_adapter(tmp_path / "merged", base, adapter)
    added = json.loads(ingle("adapter", "add", str(base), str(adapter), "--json").stdout)
    assert added["name"] == f"{base}+mine"
    assert added["model"] == str(base)
    listed = json.loads(ingle("adapter", "list", "--json").stdout)["adapters"]
    assert listed == [added]
    options = ("--raw", "ab", "--max-tokens", "6", "--temperature", "0", "--json")
    texts = [
        json.loads(ingle("run", name, *options).stdout)["text"]
        for name in (str(base), added["name"], str(merged))
    ]
    assert texts[1] == texts[2] != texts[0]
    loaded = json.loads(ingle("ps", "--json").stdout)["models"]
    assert sorted(model["name"] for model in loaded) == sorted([str(base), str(merged)])
    assert ingle("adapter", "rm", added["name"]).returncode == 0
    gone = ingle("run", added["name"], *options)
    assert gone.returncode == 1
    assert "has no adapter 'mine'" in gone.stderr


@pytest.mark.slow
@pytest.mark.model
def test_a_gguf_adapter_answers_like_the_model_that_it_is_merged_into(
    ingle: Command, smollm2_path: Path, tmp_path: Path
) -> None:
    file = write_gguf_adapter(tmp_path / "mine.gguf", smollm2_path, 1)
    added = json.loads(ingle("adapter", "add", str(smollm2_path), str(file), "--json").stdout)
    assert added["name"] == f"{smollm2_path}+mine"
    merged = tmp_path / "merged.gguf"
    merge = ("adapter", "merge", added["name"], "F16", "--output", str(merged), "--no-verify")
    refused = ingle(*merge)
    assert refused.returncode == 1
    assert "--requantize" in refused.stderr
    assert ingle(*merge, "--requantize").returncode == 0
    options = ("--raw", "Once upon a time", "--max-tokens", "8", "--temperature", "0", "--json")
    texts = [
        json.loads(ingle("run", name, *options).stdout)["text"]
        for name in (str(smollm2_path), added["name"], str(merged))
    ]
    assert texts[1] == texts[2] != texts[0]
