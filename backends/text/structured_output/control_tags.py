"""Finds which tags of a format are control tokens of the vocabulary."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

from ..tokenization.tokenizer import Tokenizer

_CANDIDATES = re.compile(r"(\]<\]minimax\[>\[|<[^<>\s«»]+>|\[/?[A-Z_]+\])")


class ControlTags:
    """Knows which parts of a text are control tokens of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._control = lru_cache(maxsize=1024)(self._look_up)

    def visible(self, texts: Iterable[str]) -> frozenset[int]:
        """Return the control tokens in any of the texts."""
        found = (self._control(piece) for text in texts for piece in _CANDIDATES.split(text))
        return frozenset(token for token in found if token is not None)

    def holds_control(self, text: str) -> bool:
        """Return whether any part of the text is a control token."""
        return bool(self.visible([text]))

    def expression(self, text: str) -> str:
        """Return a text as a Lark expression; "" for an empty text."""
        items: list[str] = []
        plain = ""
        for piece in _CANDIDATES.split(text):
            token = self._control(piece)
            if token is None:
                plain += piece
                continue
            items += [json.dumps(plain, ensure_ascii=False)] if plain else []
            plain = ""
            items.append(f"<[{token}]>")
        items += [json.dumps(plain, ensure_ascii=False)] if plain else []
        return " ".join(items)

    def _look_up(self, text: str) -> int | None:
        if not _CANDIDATES.fullmatch(text) or not self._tokenizer.has_token(text):
            return None
        ids = self._tokenizer.encode(text, add_special=False, parse_special=True)
        return ids[0] if len(ids) == 1 and not self._tokenizer.token_bytes(ids[0]) else None
