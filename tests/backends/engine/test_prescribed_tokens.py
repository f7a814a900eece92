"""`PrescribedTokens`: exactly these tokens, then what another constraint allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingle.backends.engine.prescribed_tokens import PrescribedTokens

VOCABULARY = 6


class Rising:
    """Allows larger tokens than the last one, up to 4."""

    error = "none is left"

    def __init__(self, last: int = 0) -> None:
        self.last = last

    @property
    def complete(self) -> bool:
        return self.last == 4

    def allows(self, token_id: int) -> bool:
        return self.last < token_id <= 4

    def mask(self) -> Any:
        return np.array([self.allows(token) for token in range(VOCABULARY)])

    def consume(self, token_id: int) -> None:
        self.last = token_id

    def fork(self) -> Rising:
        return Rising(self.last)


def allowed(constraint: PrescribedTokens) -> list[int]:
    """The tokens that may come next, by both answers of the constraint."""
    found = np.flatnonzero(constraint.mask()).tolist()
    assert found == [token for token in range(VOCABULARY) if constraint.allows(token)]
    return found


@pytest.mark.parametrize("place", [0, 2, 3])
def test_tokens_come_in_order_then_the_rest(place: int) -> None:
    tokens = [5, 0, 3]
    plain = PrescribedTokens(tokens, VOCABULARY, place=place)
    then = PrescribedTokens(tokens, VOCABULARY, Rising(), place=place)
    for token in tokens[place:]:
        for constraint in (plain, then):
            assert (constraint.next, constraint.complete) == (token, False)
            assert allowed(constraint) == [token]
            constraint.consume(token)
    assert (plain.next, plain.complete, plain.error) == (None, False, None)
    assert allowed(plain) == list(range(VOCABULARY))
    plain.consume(2)
    assert allowed(plain) == list(range(VOCABULARY))
    assert (then.next, then.complete, then.error) == (None, False, "none is left")
    assert allowed(then) == [1, 2, 3, 4]
    then.consume(2)
    assert allowed(then) == [3, 4]
    then.consume(4)
    assert then.complete


def test_forks_go_their_own_ways() -> None:
    first = PrescribedTokens([5], VOCABULARY, Rising())
    second = first.fork()
    first.consume(5)
    assert (allowed(first), allowed(second)) == ([1, 2, 3, 4], [5])
    third = first.fork()
    first.consume(3)
    assert (allowed(first), allowed(third)) == ([4], [1, 2, 3, 4])
    assert PrescribedTokens([5], VOCABULARY).fork().then is None
