"""Advice for recorded machines: notes, alternatives and the printed report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

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
from ingle.daemon.engines.engine_offer import choose_offer
from ingle.daemon.terminal.terminal_colors import TerminalColors
from ingle.models.catalog import Catalog
from ingle.models.fit.memory_needs import MemoryNeeds

PLAIN = TerminalColors(enabled=False)
RunSurvey = Callable[..., Survey]


@pytest.fixture
def candidates() -> list[Candidate]:
    """Models of three sizes."""
    return [
        Candidate(
            name=f"model:{size}b",
            costs=typical_costs(size * 10**9, int(size * 0.6e9), 32768, tensor_type="Q4_K"),
            quantization="Q4_K_M",
            exact=False,
            draft="model:1b" if size > 4 else None,
        )
        for size in (1, 8, 32)
    ]


@pytest.fixture
def run_survey(machines: dict[str, bytes], candidates: list[Candidate]) -> RunSurvey:
    """Survey a recorded machine."""

    def survey(name: str, *, fresh: bool = False, **request: object) -> Survey:
        """With `fresh` no engine is installed yet, and one is offered where that helps."""
        machine: Machine = msgspec.toml.decode(machines[name], type=SystemState).machine
        offer = None
        if fresh:
            software = msgspec.structs.replace(machine.software, torch=None, llama_cpp=None)
            machine = msgspec.structs.replace(machine, software=software)
            offer = choose_offer(machine.gpus, software.tools, (), has_index=False)
        advice_request = AdviceRequest(**request)  # pyright: ignore[reportArgumentType]
        return weigh_all(machine, capacity_of(machine), candidates, advice_request, offer)

    return survey


def test_fresh_machine_has_only_catalog_candidates() -> None:
    catalog = Catalog.load()
    found = list(find_candidates([], catalog))
    assert {candidate.name for candidate in found} == {entry.full_name for entry in catalog.entries}
    assert not any(candidate.exact or candidate.installed for candidate in found)
    by_name = {candidate.name: candidate for candidate in found}
    assert by_name["qwen2.5-coder:1.5b"].codes
    assert by_name["all-minilm:l6-v2"].embeds


@pytest.mark.slow
def test_unusable_gpu_is_noted(run_survey: RunSurvey) -> None:
    notes = " ".join(run_survey("rtx-5090").notes)
    assert "No engine here can use the NVIDIA GeForce RTX 5090" in notes
    assert "`ingle engine install cuda`" in notes
    assert not any("No engine" in note for note in run_survey("two-3090").notes)


def test_offered_engine_counts_as_installed(run_survey: RunSurvey) -> None:
    """An RTX 4090 without an engine, on which a game leaves little memory."""
    found = run_survey("rtx-4090-game", fresh=True)
    best = found.advice.best
    assert best is not None
    assert (best.engine, best.device, found.as_json()["needs_engine"]) == ("ingle", "gpu", "cuda")
    text = " ".join(advice_text(found, 80, PLAIN).split())
    assert (
        "ingle's own engine on the NVIDIA GeForce RTX 4090, once cuda is installed (2.7 GB)" in text
    )
    assert re.search("Without that engine it would be model:8b on the processor at about", text)
    assert "ingle engine install cuda get that engine ingle advise --apply" in text
    assert "No engine here" not in text
    idle = next(note for note in found.notes if "other programs use" in note)
    assert "model:32b" in idle


@pytest.mark.parametrize(
    ("name", "engine"),
    [("gtx-1080", "llama.cpp-vulkan"), ("m3-max", ""), ("amd-igpu", ""), ("raspberry-pi-5", "")],
)
def test_only_an_offered_engine_counts(run_survey: RunSurvey, name: str, engine: str) -> None:
    found = run_survey(name, fresh=True)
    assert found.as_json()["needs_engine"] == engine
    assert not any("No engine here" in note for note in found.notes)
    assert (found.advice.best is not None and found.advice.best.device == "gpu") == (
        name in ("gtx-1080", "m3-max")
    )


@pytest.mark.slow
def test_memory_held_by_other_programs_is_noted(run_survey: RunSurvey) -> None:
    assert any("other programs use" in note for note in run_survey("rtx-4090-game").notes)
    assert not any("other programs use" in note for note in run_survey("two-3090").notes)


def test_memory_that_is_missing_at_the_moment_is_noted(
    run_survey: RunSurvey, candidates: list[Candidate]
) -> None:
    found = run_survey("server-without-gpu")
    best = found.advice.best
    assert best is not None
    for missing in (0, 10**9):
        free = MemoryNeeds(best.host_bytes - missing)
        capacity = replace(found.capacity, free=free)
        again = weigh_all(found.machine, capacity, candidates, found.request)
        assert again.advice.best == best
        notes = " ".join(again.notes)
        assert ("1.0 GB of what it needs are missing" in notes) == bool(missing)


@pytest.mark.slow
def test_largest_possible_model_size_per_machine(run_survey: RunSurvey) -> None:
    sizes = {
        name: int(re.findall(r"about (\d+)B", " ".join(run_survey(name).notes))[0])
        for name in ("raspberry-pi-5", "two-3090", "server-without-gpu")
    }
    assert sizes["raspberry-pi-5"] <= 4 < sizes["two-3090"] <= sizes["server-without-gpu"] * 2


@pytest.mark.slow
def test_report_fits_80_columns(run_survey: RunSurvey) -> None:
    for name in ("rtx-4090-game", "amd-igpu", "m3-max", "small-container", "windows"):
        survey = run_survey(name, task="code")
        for explain in (False, True):
            text = advice_text(survey, 80, PLAIN, explain=explain)
            assert max(map(len, text.splitlines())) <= 80, name


@pytest.mark.slow
def test_report_explains_the_choice_with_numbers(run_survey: RunSurvey) -> None:
    text = advice_text(run_survey("two-3090"), 80, PLAIN, explain=True)
    assert "▸ model:32b  32B · Q4_K_M · 19.2 GB to pull" in text
    assert "llama.cpp on the NVIDIA GeForce RTX 3090" in text  # ingle's keeps less free
    assert "of model:1b, if they are measured to pay" in text
    assert "MB / 608 GB/s" in text
    assert "ingle advise --apply" in text


def test_speed_is_measured_only_from_enough_undrafted_tokens() -> None:
    def loaded_model(completed: int, drafted: int = 0, on_gpu: int = 0) -> LoadedModel:
        return LoadedModel(
            name="a",
            state=ModelState.READY,
            decode_rate=26.8,
            layers=30,
            layers_on_gpu=on_gpu,
            completion_tokens_total=completed,
            accepted_tokens_total=drafted,
        )

    assert (
        list(measured_speeds([loaded_model(0), loaded_model(6), loaded_model(300, drafted=200)]))
        == []
    )
    assert list(measured_speeds([loaded_model(300), loaded_model(300, 10, 30)])) == [
        MeasuredSpeed(name="a", decode=26.8, on_gpu=on_gpu) for on_gpu in (False, True)
    ]


def test_report_when_nothing_fits(run_survey: RunSurvey) -> None:
    survey = run_survey("small-container")
    text = advice_text(survey, 80, PLAIN)
    assert "Nothing fits" in text
    assert "--apply" not in text
    assert survey.as_json()["best"] is None
    longer = advice_text(run_survey("two-3090", context=10**7), 80, PLAIN)
    assert "No known model has a context of 10,000,000 tokens." in longer


@pytest.mark.slow
def test_json_contains_all_details(run_survey: RunSurvey) -> None:
    found = json.loads(json.dumps(run_survey("rtx-4090-game", need="latency").as_json()))
    assert found["for"] == "latency"
    assert found["best"]["speed"]["arithmetic"]
    assert found["alternatives"][0]["why_not"]


def test_privacy_note_says_that_answers_are_local(run_survey: RunSurvey) -> None:
    assert any(
        "nothing that you ask leaves it" in n for n in run_survey("m3-max", need="privacy").notes
    )
