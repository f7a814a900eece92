"""Benchmark variants: which combinations of settings are compared."""

from __future__ import annotations

import os

import pytest

from ingle.daemon.benchmark.bench_variant import (
    AXES,
    BenchVariant,
    WrongCombination,
    parse_combination,
    varied,
)
from ingle.daemon.settings.config import Config
from ingle.daemon.settings.paths import find_paths


def test_variants_are_the_baseline_and_single_changes() -> None:
    names = [combination.name for combination in varied(["kv", "clients"], drafts=False)]
    assert names == ["baseline", "clients=4", "clients=8", "kv=q8_0", "kv=q4_0"]


def test_draft_speculation_requires_a_draft_model() -> None:
    without = [c.name for c in varied(["speculation"], drafts=False)]
    assert without == ["baseline", "speculation=ngram"]
    assert "speculation=draft" in [c.name for c in varied(["speculation"], drafts=True)]


def test_order_of_settings_does_not_matter() -> None:
    assert parse_combination("kv=q8_0, clients=4") == parse_combination("clients=4 kv=q8_0")
    assert parse_combination("").name == "baseline"


@pytest.mark.parametrize(
    "text", ["kv", "speed=9", "kv=q9", "clients=0", "clients=many", "clients=65", "clients=²"]
)
def test_invalid_combinations_are_rejected(text: str) -> None:
    with pytest.raises(WrongCombination):
        parse_combination(text)


def test_unknown_axis_is_rejected() -> None:
    with pytest.raises(WrongCombination):
        varied(["speed"], drafts=False)


@pytest.mark.parametrize("axis", AXES)
def test_every_value_can_be_configured(axis: str) -> None:
    config = Config(paths=find_paths(os.environ))
    for value in AXES[axis]:
        combination = parse_combination(f"{axis}={value}")
        configured = combination.configure(config)
        assert configured.slots >= combination.clients
        assert configured.kv_disk == configured.kv_memory == 0
        assert (combination.load == ()) == (axis == "clients")


def test_combination_sets_the_config() -> None:
    config = parse_combination("kv=q4_0 flash=off engine=cuda quantize=nf4 speculation=ngram")
    found = config.configure(Config(paths=find_paths(os.environ)))
    assert (found.kv_type, found.flash_attention, found.engine) == ("q4_0", "off", "cuda")
    assert (found.quantize, found.speculation) == ("nf4", "ngram")
    assert BenchVariant().clients == 1
