"""The table of sampling options: every row reaches the protocols, the samplers and the docs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from ingle.backends.base.errors import UnsupportedSampling
from ingle.backends.base.sampling_option import SamplingOption
from ingle.backends.base.sampling_params import SAMPLING_OPTIONS, SamplingParams, active_options
from ingle.backends.cuda.sampling import sampling_state
from ingle.backends.cuda.sampling.row_sampler import NUMBERS, RowSampler
from ingle.backends.cuda.sampling.sampling_state import SamplingState
from ingle.backends.engine.sequence import Sequence
from ingle.backends.llama_cpp.batch_sampler import CHAIN_OPTIONS
from ingle.daemon.protocols.llama_cpp.sampling import SamplingFields, sampling_options
from ingle.daemon.protocols.ollama.requests import model_options
from ingle.daemon.protocols.request_options import SamplingOptions, merge_sampling

EFFECTS = [name for name, option in SAMPLING_OPTIONS.items() if option.detail_of is None]
NOTHING: dict[str, Any] = {
    "xtc_threshold": 0.05,
    **{name: SAMPLING_OPTIONS[name].off for name in EFFECTS if name != "temperature"},
}
API_PAGE = Path(__file__).parents[3] / "docs" / "api.md"


def valid_value(option: SamplingOption) -> float:
    """Return a value within the bounds that is neither the default nor off."""
    low, high = option.bounds
    value = 2 if option.is_integer else low + (min(high, 2.0) - low) * 0.4
    return int(value) if option.is_integer else float(value)


def test_every_sampling_parameter_has_a_row() -> None:
    others = {"dry_sequence_breakers", "logit_bias", "seed"}
    fields = {field.name for field in msgspec.structs.fields(SamplingParams)}
    assert fields == SAMPLING_OPTIONS.keys() | others
    for option in SAMPLING_OPTIONS.values():
        assert (option.off is None) == (option.detail_of is not None)
        assert option.detail_of is None or option.detail_of in EFFECTS


@pytest.mark.parametrize("name", SAMPLING_OPTIONS)
def test_every_protocol_accepts_the_option(name: str) -> None:
    option = SAMPLING_OPTIONS[name]
    value = valid_value(option)
    body = msgspec.json.encode({name: value})
    assert (
        getattr(merge_sampling(msgspec.json.decode(body, type=SamplingOptions), {}), name) == value
    )
    fields = msgspec.json.decode(body, type=SamplingFields)
    assert getattr(sampling_options(fields), name) == value
    ollama = getattr(model_options({name: value}).sampling, name)
    assert ollama == (value if option.ollama_bounds is not None else None)
    assert getattr(merge_sampling(SamplingOptions(), {name: value}), name) == value


@pytest.mark.parametrize("name", SAMPLING_OPTIONS)
def test_bounds_are_checked(name: str) -> None:
    low, high = SAMPLING_OPTIONS[name].bounds
    for value in (low - 1, high + 1, *([low] if SAMPLING_OPTIONS[name].exclusive else [])):
        with pytest.raises(msgspec.ValidationError, match=name):
            msgspec.json.decode(msgspec.json.encode({name: value}), type=SamplingOptions)


@pytest.mark.parametrize("name", SAMPLING_OPTIONS)
def test_every_sampler_supports_the_option(name: str) -> None:
    assert name in CHAIN_OPTIONS
    known = {*NUMBERS, *sampling_state.ADJUSTED_OPTIONS, *sampling_state.MIROSTAT_OPTIONS}
    assert name in known | sampling_state.FUSED_OPTIONS
    page = API_PAGE.read_text()
    assert re.search(rf"`{name}`", page[page.index("### Sampling") :])


@pytest.mark.parametrize("name", EFFECTS)
def test_option_changes_the_distribution(name: str) -> None:
    """Options that the kernel does not support are left to torch."""
    option = SAMPLING_OPTIONS[name]
    values: dict[str, Any] = NOTHING | {"temperature": 0.9, name: valid_value(option)}
    params = msgspec.convert(values, SamplingParams)
    assert name in active_options(params)
    state = SamplingState(Sequence("r", 0, [1], params))
    is_fused = {name} <= sampling_state.FUSED_OPTIONS | sampling_state.ADJUSTED_OPTIONS
    assert (state.fused is not None) == is_fused
    assert state.adjusts == (option.stage == "adjust")
    if option.stage == "adjust" or name == "mirostat":
        return  # compared with llama.cpp in test_sampler_oracle
    logits = torch.linspace(3, -3, 50)[None].sin() * 3
    random = torch.full((1, 2), 0.1, dtype=torch.float64)

    def probabilities(params: SamplingParams) -> torch.Tensor:
        state = SamplingState(Sequence("r", 0, [1], params))
        sampler = RowSampler(state.route, state.numbers[None], logits.device)
        left = sampler.reduce(logits.clone(), random)
        found = torch.zeros(50, dtype=torch.float64)
        found[left.ids[0]] = left.probabilities()[0]
        return found

    without = msgspec.convert(NOTHING | {"temperature": 1.0}, SamplingParams)
    with_it = msgspec.convert(
        NOTHING | {"temperature": 1.0, name: valid_value(option)}, SamplingParams
    )
    assert not torch.allclose(probabilities(with_it), probabilities(without))


def test_a_detail_is_active_with_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it is neither lost in the kernel nor in a sampler that does not know it."""
    assert "xtc_threshold" not in active_options(SamplingParams(xtc_threshold=0.3))
    assert "xtc_threshold" not in active_options(SamplingParams(xtc_probability=1.0))
    params = SamplingParams(xtc_probability=1.0, xtc_threshold=0.3)
    assert "xtc_threshold" in active_options(params)
    fused = sampling_state.FUSED_OPTIONS | {"xtc_probability"}
    monkeypatch.setattr(sampling_state, "FUSED_OPTIONS", fused)
    assert SamplingState(Sequence("r", 0, [1], params)).fused is None
    monkeypatch.setattr(sampling_state, "NUMBERS", ("temperature",))
    with pytest.raises(UnsupportedSampling, match="xtc_threshold"):
        SamplingState(Sequence("r", 0, [1], params))


def test_unknown_option_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_state, "ADJUSTED_OPTIONS", frozenset[str]())
    with pytest.raises(UnsupportedSampling, match="repeat_penalty"):
        SamplingState(Sequence("r", 0, [1], SamplingParams(repeat_penalty=1.5)))
