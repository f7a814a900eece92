"""Descriptions of models in the picker: groups, filter, fit, download and facts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.daemon.client.model_types import ModelEntry, ModelFit
from ingle.tui.session.model_descriptions import (
    download_sentence,
    facts,
    fit_sentence,
    fit_words,
    group_models,
    lacks_room,
)

WARM = ModelEntry(name="warm:7b", installed=True, state="ready")
DISK = ModelEntry(name="disk:3b", installed=True, state="stopped", description="Writes code.")
REMOTE = ModelEntry(name="remote:1b", installed=False, state="available", quantization="Q4_K_M")
EMBEDS = ModelEntry(name="embeds:1", installed=False, state="available", task="embed")


def _names(query: str) -> list[tuple[str, list[str]]]:
    groups = group_models([EMBEDS, REMOTE, DISK, WARM], query)
    return [(group.title, [model.name for model in group.models]) for group in groups]


def test_models_are_grouped_by_availability() -> None:
    assert _names("") == [
        ("warm", ["warm:7b"]),
        ("on disk", ["disk:3b"]),
        ("to download", ["remote:1b", "embeds:1"]),
    ]


def test_all_words_of_the_filter_must_match() -> None:
    assert _names("CODE") == [("on disk", ["disk:3b"])]
    assert _names("q4 remote") == [("to download", ["remote:1b"])]
    assert _names("q4 disk") == []


@pytest.mark.parametrize(
    ("device", "state", "words", "sentence"),
    [
        ("cuda", "fits", "fits in VRAM", "takes about 1.5 GB of 8.0 GB, with 4 096 tokens"),
        ("cpu", "fits", "fits in RAM", "takes about 1.5 GB of 8.0 GB, with 4 096 tokens"),
        ("cuda", "spills", "partly in VRAM", "the GPU has 8.0 GB; slower"),
        ("cpu", "no", "does not fit", "needs at least 1.5 GB, and 8.0 GB of RAM is available"),
    ],
)
def test_fit_is_described(device: Any, state: Any, words: str, sentence: str) -> None:
    fit = ModelFit(
        device=device,
        state=state,
        needs_bytes=1_500_000_000,
        free_bytes=8_000_000_000,
        context=4096,
    )
    assert fit_words(fit) == words
    assert sentence in fit_sentence(fit)
    assert "of 8.0 GB" not in fit_sentence(fit, loaded=True)
    with_engine = fit_sentence(msgspec.structs.replace(fit, needs_engine="cuda"))
    assert ("VRAM with the engine cuda: takes" in with_engine) == ("in VRAM" in words)
    assert fit_words(None) == fit_sentence(None) == ""


def test_download_sentence_has_size_time_and_disk_space() -> None:
    assert download_sentence(1_117_320_768, 52_000_000_000) == (
        "1.1 GB · about 1 min 29 s at 100 Mbit/s · 52 GB free on the disk"
    )
    assert download_sentence(98_000_000, 0, 9.8e6) == "98 MB · about 10 s at 9.8 MB/s"
    assert "unknown until" in download_sentence(None, 1)
    assert lacks_room(10, 5)
    assert not lacks_room(10, 0)
    assert not lacks_room(None, 5)


def test_unknown_facts_are_omitted() -> None:
    assert facts(REMOTE) == ["Q4_K_M"]


def test_model_of_another_program_is_marked() -> None:
    theirs = ModelEntry(name="m", installed=True, state="stopped", place="Ollama")
    assert facts(theirs) == ["file of Ollama"]
    assert [group.models for group in group_models([theirs, REMOTE], "ollama")] == [[theirs]]
