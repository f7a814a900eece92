"""The encoder that corrects what the networks say of English passages."""

from __future__ import annotations

import pytest

from ingle.daemon.routing.detectors.natural_language import english_network, passage_network
from ingle.daemon.routing.detectors.natural_language.english_network import EnglishNetwork
from ingle.daemon.routing.detectors.natural_language.passage_detector import log_odds
from ingle.daemon.routing.detectors.natural_language.passage_network import PassageNetwork
from ingle.daemon.routing.text_analysis.data_files import read_data_file

OTHERS = [
    "Erinnere mich bitte daran, morgen um neun meine Mutter anzurufen.",
    "Rappelle-moi demain matin de téléphoner à ma mère.",
    "Herinner me eraan om morgen mijn moeder te bellen.",
    "Przypomnij mi jutro rano, żebym zadzwonił do mamy.",
    "Ricordami domani mattina di chiamare mia madre.",
    "明天早上提醒我给妈妈打电话。",
]


@pytest.fixture(scope="module")
def network() -> PassageNetwork:
    return PassageNetwork()


@pytest.fixture(scope="module")
def english() -> EnglishNetwork:
    return EnglishNetwork()


@pytest.mark.parametrize("text", OTHERS)
def test_other_languages_are_judged_without_it(
    english: EnglishNetwork, network: PassageNetwork, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not english.is_english(text)
    found = network.read(text)
    monkeypatch.setattr(passage_network, "_UNSURE", 0.0)
    assert network.read(text) == found


@pytest.mark.parametrize("text", ["", "12 + 30", "…", "\ud83d", "x = foo_bar(baz, qux)"])
def test_no_prose_is_not_english(english: EnglishNetwork, text: str) -> None:
    assert not english.is_english(text)


def _public(_network: EnglishNetwork, _passage: str) -> float:
    return -99.0


def _private(_network: EnglishNetwork, _passage: str) -> float:
    return 99.0


def test_it_tells_private_from_public(english: EnglishNetwork) -> None:
    assert english.read("I was fired today and cannot tell my wife.") > 0
    assert english.read("Which months of the year have 31 days?") < 0


def test_it_reads_the_beginning_of_a_passage_of_any_length(english: EnglishNetwork) -> None:
    long = "the doctor said that " * 400
    assert english.read(long) == english.read(f"{long}\ud83d and more")


def test_corrections_are_bounded_and_only_in_short_texts(
    network: PassageNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Please translate the message to my neighbour."
    long = "\n\n".join([text] * 100)

    def odds(text: str) -> list[float]:
        return [log_odds(one.private) for one in network.read(text)]

    short, whole = odds(text), odds(long)
    monkeypatch.setattr(EnglishNetwork, "read", _public)
    lowered = odds(text)
    assert odds(long) == whole
    monkeypatch.setattr(EnglishNetwork, "read", _private)
    raised = odds(text)
    assert raised[0] - lowered[0] == pytest.approx(2.6, abs=0.01)  # type: ignore[reportUnknownMemberType]
    assert lowered[0] <= short[0] <= raised[0]


def test_networks_take_twenty_megabytes_at_most() -> None:
    names = (passage_network.NETWORK, passage_network.SECOND, passage_network.TOKENS)
    names += (english_network.NETWORK, english_network.TOKENS)
    assert sum(len(read_data_file(name)) for name in names) <= 20_000_000
