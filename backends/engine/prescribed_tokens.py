"""`PrescribedTokens`: the constraint of a prompt whose tokens get log-probabilities."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .constraint import Constraint


class PrescribedTokens:
    """Allows exactly `token_ids`, one after the other, then what `then` allows."""

    def __init__(
        self,
        token_ids: Sequence[int],
        vocab_size: int,
        then: Constraint | None = None,
        *,
        place: int = 0,
    ) -> None:
        """`place` tokens were consumed already."""
        self._token_ids = token_ids
        self._vocab_size = vocab_size
        self.then = then
        self._place = place

    @property
    def next(self) -> int | None:
        """The one token that may come next; None after the last."""
        return None if self._is_over else self._token_ids[self._place]

    @property
    def complete(self) -> bool:
        """Whether no token may follow."""
        return self._is_over and self.then is not None and self.then.complete

    @property
    def error(self) -> str | None:
        """See `Constraint.error`."""
        return None if self.then is None else self.then.error

    def allows(self, token_id: int) -> bool:
        """Whether the token may come next."""
        if not self._is_over:
            return token_id == self._token_ids[self._place]
        return self.then is None or self.then.allows(token_id)

    def mask(self) -> NDArray[np.bool_]:
        """Which tokens of the vocabulary may come next."""
        if not self._is_over:
            mask = np.zeros(self._vocab_size, np.bool_)
            mask[self._token_ids[self._place]] = True
            return mask
        return np.ones(self._vocab_size, np.bool_) if self.then is None else self.then.mask()

    def consume(self, token_id: int) -> None:
        """Take the next token."""
        if not self._is_over:
            self._place += 1
        elif self.then is not None:
            self.then.consume(token_id)

    def fork(self) -> PrescribedTokens:
        """An independent copy in the same state."""
        then = None if self.then is None else self.then.fork()
        return PrescribedTokens(self._token_ids, self._vocab_size, then, place=self._place)

    @property
    def _is_over(self) -> bool:
        return self._place >= len(self._token_ids)
