"""Advice with what would change it, and how it is printed, on recorded machines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import msgspec
import pytest

from ingle.backends.advice.advice_request import AdviceRequest, Candidate, MeasuredSpeed
from ingle.backends.advice.machine_capacity import capacity_of
from ingle.backends.advice.typical_model import typical_costs
from ingle.backends.hardware.machine import Machine
from ingle.daemon.advice.advice_text import advice_text
from ingle.daemon.advice.machine_advice import Survey, find_candidates, measured_speeds, weigh_all
from ingle.daemon.client.model_types import LoadedModel, ModelState
from ingle.daemon.doctor.system_state import SystemState
from ingle.daemon.terminal.terminal_colors import TerminalColors
from ingle.models.catalog import Catalog

PLAIN = TerminalColors(enabled=False)
Look = Callable[..., Survey]


@pytest.fixture
def look(machines: dict[str, bytes]) -> Look:
    """A survey of a recorded machine with models of three sizes."""
    candidates = [
        Candidate(
            name=f"model:{size}b",
            costs=typical_costs(size * 10**9, int(size * 0.6e9), 32768, tensor_type="Q4_K"),
            quantization="Q4_K_M",
            exact=False,
            draft="model:1b" if size > 4 else None,
        )
        for size in (1, 8, 32)
    ]

    def survey(name: str, **request: object) -> Survey:
        machine: Machine = msgspec.toml.decode(machines[name], type=SystemState).machine
        asked = AdviceRequest(**request)  # pyright: ignore[reportArgumentType]
        return weigh_all(machine, capacity_of(machine), candidates, asked)

    return survey


def test_the_catalog_is_what_there_is_on_a_fresh_machine() -> None:
    catalog = Catalog.load()
    found = list(find_candidates([], catalog))
    assert {candidate.name for candidate in found} == {entry.full_name for entry in catalog.entries}
    assert not any(candidate.exact or candidate.installed for candidate in found)
    by_name = {candidate.name: candidate for candidate in found}
    assert by_name["qwen2.5-coder:1.5b"].codes
    assert by_name["all-minilm:l6-v2"].embeds


@pytest.mark.slow
def test_a_gpu_that_no_engine_can_use_is_told_of(look: Look) -> None:
    notes = " ".join(look("rtx-5090").notes)
    assert "No engine here can use the NVIDIA GeForce RTX 5090" in notes
    assert "ingle doctor" in notes
    assert not any("No engine" in note for note in look("two-3090").notes)


@pytest.mark.slow
def test_memory_that_others_hold_is_told_of(look: Look) -> None:
    assert any("other programs use" in note for note in look("rtx-4090-game").notes)
    assert not any("other programs use" in note for note in look("two-3090").notes)


@pytest.mark.slow
def test_models_beyond_the_catalog(look: Look) -> None:
    sizes = {
        name: int(re.findall(r"about (\d+)B", " ".join(look(name).notes))[0])
        for name in ("raspberry-pi-5", "two-3090", "server-without-gpu")
    }
    assert sizes["raspberry-pi-5"] <= 4 < sizes["two-3090"] <= sizes["server-without-gpu"] * 2


@pytest.mark.slow
def test_what_is_printed_fits_into_80_columns(look: Look) -> None:
    for name in ("rtx-4090-game", "amd-igpu", "m3-max", "small-container", "windows"):
        survey = look(name, task="code")
        for explain in (False, True):
            text = advice_text(survey, 80, PLAIN, explain=explain)
            assert max(map(len, text.splitlines())) <= 80, name


@pytest.mark.slow
def test_the_choice_is_told_with_its_numbers(look: Look) -> None:
    text = advice_text(look("two-3090"), 80, PLAIN, explain=True)
    assert "▸ model:32b  32B · Q4_K_M · 19.2 GB to pull" in text
    assert "llama.cpp on the NVIDIA GeForce RTX 3090" in text  # ours keeps more of it free
    assert "of model:1b, if they are measured to pay" in text
    assert "MB / 608 GB/s" in text
    assert "ingle advise --apply" in text


def test_a_few_words_do_not_tell_how_quick_a_machine_is() -> None:
    def made(written: int, drafted: int = 0, on_gpu: int = 0) -> LoadedModel:
        return LoadedModel(
            name="a",
            state=ModelState.READY,
            decode_rate=26.8,
            layers=30,
            layers_on_gpu=on_gpu,
            completion_tokens_total=written,
            accepted_tokens_total=drafted,
        )

    assert list(measured_speeds([made(0), made(6), made(300, drafted=200)])) == []
    assert list(measured_speeds([made(300), made(300, 10, 30)])) == [
        MeasuredSpeed(name="a", decode=26.8, on_gpu=on_gpu) for on_gpu in (False, True)
    ]


def test_nothing_fits(look: Look) -> None:
    survey = look("small-container")
    text = advice_text(survey, 80, PLAIN)
    assert "Nothing fits" in text
    assert "--apply" not in text
    assert survey.as_json()["best"] is None
    longer = advice_text(look("two-3090", context=10**7), 80, PLAIN)
    assert "No known model has a context of 10,000,000 tokens." in longer


@pytest.mark.slow
def test_json_has_all_of_it(look: Look) -> None:
    found = json.loads(json.dumps(look("rtx-4090-game", need="latency").as_json()))
    assert found["for"] == "latency"
    assert found["best"]["speed"]["arithmetic"]
    assert found["alternatives"][0]["why_not"]


def test_privacy_says_where_answers_come_from(look: Look) -> None:
    assert any("nothing that you ask leaves it" in n for n in look("m3-max", need="privacy").notes)
