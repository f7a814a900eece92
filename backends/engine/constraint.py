"""What a sequence may say, token by token."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Constraint(Protocol):
    """Follows one sequence, and knows which tokens may come next."""

    @property
    def complete(self) -> bool:
        """Whether nothing may follow any more, not even a token that ends the answer."""
        ...

    @property
    def error(self) -> str | None:
        """Why it cannot go on, where something went wrong; final."""
        ...

    def allows(self, token_id: int) -> bool:
        """Whether the token may come next; much cheaper than a mask."""
        ...

    def mask(self) -> NDArray[np.bool_]:
        """Which tokens of the vocabulary may come next; none of them after an error."""
        ...

    def consume(self, token_id: int) -> None:
        """Take the next token, which must be allowed."""
        ...

    def fork(self) -> Constraint:
        """Another one in the same state, which goes its own way."""
        ...
