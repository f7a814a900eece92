from __future__ import annotations

import pytest

from ingle.daemon.client.generation_types import PromptTokenCounts
from ingle.tui.gauges.context_counter import TokenCountCache

HELLO = {"role": "user", "content": "Hello there"}
LONG = {"role": "assistant", "content": "abcdefgh" * 100}


def test_counts_are_exact_once_told_and_only_for_that_model() -> None:
    ledger = TokenCountCache()
    assert not ledger.count("m", HELLO)[1]
    ledger.note("m", [HELLO], PromptTokenCounts(total=12, messages=[9], rest=3))
    assert ledger.count("m", HELLO) == (9, True)
    assert not ledger.count("other", HELLO)[1]
    assert not ledger.count("m", HELLO | {"role": "assistant"})[1]
    assert ledger.is_complete("m", [HELLO])
    assert not ledger.is_complete("m", [HELLO, LONG])


def test_estimates_learn_from_what_was_counted() -> None:
    ledger = TokenCountCache()
    before = ledger.estimate("m", "x" * 800)
    ledger.note("m", [LONG], PromptTokenCounts(total=108, messages=[105]))
    assert before == 200
    assert ledger.estimate("m", "x" * 800) == 100
    assert ledger.estimate("other", "x" * 800) == 200


def test_an_answer_for_other_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        TokenCountCache().note("m", [HELLO, LONG], PromptTokenCounts(total=9, messages=[9]))
