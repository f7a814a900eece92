"""Decides which blocks of a text are folded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

MAX_LINES = 40
"""Lines above which long code is folded."""
SHOWN_LINES = 20
"""Lines that folded code still shows."""


def _as_by_default(_key: str, by_default: bool) -> bool:
    return by_default


@dataclass(frozen=True, slots=True)
class BlockFolding:
    """`is_folded` takes a block's key and the default for blocks that the user did not fold.

    `long_code` says whether long code is folded by default: not in an answer that was watched as it
    grew, whose text would jump.
    """

    is_folded: Callable[[str, bool], bool] = _as_by_default
    long_code: bool = True


DEFAULT_FOLDING = BlockFolding()
