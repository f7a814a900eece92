"""What the step loop asks of the book of a runner's KV cache, whatever the cache is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..base.kv_page_map import PageMap
from .batch import Batch
from .sequence import Sequence

Tokens = NDArray[np.int32]

MIN_SHARED = 32
"""Shorter prefixes are computed again. That costs little, and keeps short prompts reproducible:
what is computed in other chunks has slightly other logits."""


@dataclass(frozen=True)
class Prefix:
    """The first `length` tokens of something in the cache; good until the cache changes.

    So much of them as takes `active` room is held by running sequences already.
    """

    length: int = 0
    active: int = 0


class KVCache(Protocol):
    """Keeps what was computed for as long as there is room, and finds it again.

    Room is counted in tokens. Where the cache is cut into pages, a sequence takes whole ones, so
    that what a token takes depends on where its sequence stands: see `growth`.
    """

    @property
    def capacity(self) -> int:
        """All the room there is."""
        ...

    @property
    def used(self) -> int:
        """Room of running sequences; what several share counts once."""
        ...

    @property
    def kept(self) -> int:
        """Room that is kept for nobody but a request to come."""
        ...

    @property
    def available(self) -> int:
        """Room that running sequences can have: free, or only kept."""
        ...

    @property
    def restored(self) -> int:
        """Tokens that came back from the store."""
        ...

    def room(self, count: int) -> int:
        """What so many tokens of one sequence take."""
        ...

    def growth(self, sequence: Sequence, count: int) -> int:
        """What `count` more tokens of the sequence, running or waiting, take of `available`."""
        ...

    def most(self, sequences: Iterable[Sequence], room: int) -> int:
        """How many more tokens of these sequences fit at the most into so much of `available`.

        For one sequence exactly so many fit; of several, who takes how many decides.
        """
        ...

    def match(self, tokens: Tokens, minimum: int = MIN_SHARED) -> Prefix:
        """The longest prefix of `tokens` but for its last one; empty below `minimum`."""
        ...

    def open(self, sequence: Sequence, prefix: Prefix) -> None:
        """Let the sequence run, beginning with the prefix and what was read for it."""
        ...

    def reserve(self, batch: Batch) -> None:
        """Make sure that the runner has room for the batch, which `available` allows."""
        ...

    def grow(self, sequence: Sequence, count: int) -> None:
        """Book the sequence's next `count` tokens, which are computed and will stay."""
        ...

    def trim(self, sequence: Sequence) -> None:
        """Forget what was computed of the sequence but not booked."""
        ...

    def until_checkpoint(self, sequence: Sequence) -> int:
        """Pending tokens that may be computed at once."""
        ...

    def keep(self, sequence: Sequence) -> None:
        """End what the sequence holds, and remember what is in it."""
        ...

    def give_up_oldest(self) -> bool:
        """Forget what was kept longest without use; False where nothing is kept."""
        ...

    def make_light(self) -> None:
        """Move out of the way what is only kept and slows down those who run.

        Takes about 20 ms at most. What is not moved by then stays, and is in the next step.
        """
        ...

    @property
    def unsaved(self) -> bool:
        """Whether something kept has not been saved to disk yet."""
        ...

    def save(self, seconds: float) -> None:
        """Hand over what is kept to be written, newest first, for about so many seconds.

        Stops early where the disk does not keep up.
        """
        ...

    def page_map(self) -> PageMap:
        """What is in each page, as the book has it now."""
        ...
