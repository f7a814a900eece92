"""Error rates of all detectors on prompt sets, and the network on texts that are no prompts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from topics import Prompts, interval, measure, own_sets

from ingle.daemon.routing.detectors.natural_language.passage_detector import PassageDetector
from ingle.daemon.routing.detectors.natural_language.passage_network import PassageNetwork
from ingle.daemon.routing.inspection.text_scanner import OwnWords, make_scanner

PASSAGES = PassageDetector(PassageNetwork())
# The quick run has few prompts, so that its limits are wider than those of the full run.
FLOORS = {True: 0.10, False: 0.13}
FULL_FLOORS = {True: 0.06, False: 0.10}


@pytest.mark.parametrize("prompts", own_sets(each=1), ids=lambda one: f"{one.name} {one.sensitive}")
def test_error_rates_on_a_sample_of_each_set(prompts: Prompts) -> None:
    assert measure(prompts, make_scanner(OwnWords())).share <= FLOORS[prompts.sensitive]


@pytest.mark.slow
@pytest.mark.parametrize("prompts", own_sets(), ids=lambda one: f"{one.name} {one.sensitive}")
def test_error_rates_on_the_full_sets(prompts: Prompts) -> None:
    rate = measure(prompts, make_scanner(OwnWords()))
    assert rate.share <= FULL_FLOORS[prompts.sensitive]
    assert rate.low <= rate.share <= rate.high


def test_confidence_interval_is_over_groups() -> None:
    assert interval([(0, 4)] * 30) == (0.0, 0.1)
    low, high = interval([(4, 4)] * 3 + [(0, 4)] * 27)
    assert low < 0.1 < high
    assert high - low > 0.15


@pytest.mark.parametrize(
    "text",
    [
        "You are a helpful assistant. Use the tools when needed.",
        '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}',
        "get_weather",
        "Get the current weather for a city",
        "Sure! Here is a function that adds two numbers:\n\ndef add(a, b):\n    return a + b",
        "The capital of France is Paris.",
    ],
)
def test_system_prompts_and_tools_are_not_personal(text: str) -> None:
    assert list(PASSAGES.find(text)) == []


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=300) | st.text("aA.é1 \n'-ßİ:,@$", max_size=300))
def test_findings_lie_within_any_text(text: str) -> None:
    for finding in PASSAGES.find(text):
        assert 0 <= finding.start < finding.end <= len(text)
        assert 0 <= finding.certainty <= 1
