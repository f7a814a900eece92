"""The interface of constraints: which tokens a sequence may generate."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Constraint(Protocol):
    """The state of a grammar along one sequence: which tokens are allowed next."""

    @property
    def complete(self) -> bool:
        """Whether no token may follow, not even one that ends the answer."""
        ...

    @property
    def error(self) -> str | None:
        """Why the grammar cannot be followed any further, or None; final."""
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
        """An independent copy in the same state."""
        ...
