"""Conversion of llama-server's sampling fields to sampling options."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.llama_cpp.sampling import (
    Bias,
    SamplingFields,
    sampling_options,
    text_biases,
)
from ingle.daemon.protocols.request_options import SamplingOptions


def options(**fields: Any) -> SamplingOptions:
    return sampling_options(msgspec.json.decode(msgspec.json.encode(fields), type=SamplingFields))


def test_omitted_fields_keep_the_models_defaults() -> None:
    assert options(samplers=None, logit_bias=None) == SamplingOptions()
    assert options(seed=-1) == SamplingOptions()


def test_numbers_are_clamped_to_their_bounds() -> None:
    cut = options(temperature=-1, top_p=7, top_k=-5.0, min_p=2, mirostat=9)
    assert (cut.temperature, cut.top_p, cut.top_k, cut.min_p, cut.mirostat) == (0.0, 1.0, 0, 1.0, 2)
    assert options(seed=2**64).seed == 2**63 - 1
    assert options(dry_sequence_breakers=["", "\n", "x" * 50]).dry_sequence_breakers == [
        "\n",
        "x" * 40,
    ]


def test_samplers_that_are_not_listed_are_disabled() -> None:
    chosen = options(samplers=["top_k", "top_p", "infill"], top_k=40, top_p=0.99, min_p=0.05)
    assert (chosen.top_k, chosen.top_p) == (40, 0.99)
    assert (chosen.temperature, chosen.typical_p, chosen.repeat_penalty) == (1.0, 1.0, 1.0)
    assert chosen.min_p is not None
    assert chosen.min_p > 0.2
    assert options(samplers=["temperature"], temperature=0.3).temperature == 0.3
    assert options(samplers="edskypmxt", temperature=0.3) == SamplingOptions(temperature=0.3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([[15, -1.5], [16, False], [17, True], [18]], {15: -1.5, 16: -100.0}),
        ({"15": 1000, "16": False}, {15: 100.0, 16: -100.0}),
        ([], {}),
        ([["word", 1], [15, 1], ["gone", True]], {15: 1.0}),
    ],
)
def test_logit_bias_forms(given: Any, expected: dict[int, float]) -> None:
    assert options(logit_bias=given).logit_bias == expected


def test_logit_bias_of_texts() -> None:
    fields = SamplingFields(logit_bias=[["word", 1], [15, 1], ["gone", True], [" the", False]])
    assert text_biases(fields) == {"word": 1.0, " the": -100.0}
    assert text_biases(SamplingFields()) == {}
    excesses: list[dict[str, Bias]] = [{f"{n}x": 1 for n in range(1025)}, {"x" * 257: 1}]
    for excess in excesses:
        with pytest.raises(InvalidBody, match="logit_bias"):
            text_biases(SamplingFields(logit_bias=excess))


@pytest.mark.parametrize("given", [[[-1, 1]], [[1.5, 1]], [[2**40, 1]]])
def test_logit_bias_without_a_token_id_is_refused(given: Any) -> None:
    with pytest.raises(InvalidBody, match="logit_bias"):
        options(logit_bias=given)
