"""`BlockFolding`: which blocks of a text are folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MAX_LINES = 40
"""Code with more lines is folded, where long code is."""
SHOWN_LINES = 20
"""Lines that folded code still shows."""


def _as_by_default(_key: str, by_default: bool) -> bool:
    return by_default


@dataclass(frozen=True, slots=True)
class BlockFolding:
    """`is_folded` is asked with a block's key and what holds where the reader said nothing.

    `long_code` says whether that is folding for long code: not in an answer that was watched as it
    grew, where it would pull the text away from under the reader's eyes.
    """

    is_folded: Callable[[str, bool], bool] = _as_by_default
    long_code: bool = True


DEFAULT_FOLDING = BlockFolding()
