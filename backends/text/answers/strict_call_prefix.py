"""Detects whether a free-form answer begins with a schema-constrained tool call."""

from __future__ import annotations

import re
from collections.abc import Collection

_TAGS = ("<tool_call>", "```", "{")
_BEHIND_TAG = re.compile(r"(?:<tool_call>|```[a-z_]*)?\s*(.*)", re.DOTALL)
_BLANKS = re.compile(r"\s+")
_BEGINS = '{"name":"'


class StrictCallPrefix:
    """Follows the beginning of one answer until the decision is certain."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._text = ""
        self._is_call = False
        self.is_free = False
        """Whether the rest of the answer is unconstrained."""

    def push(self, text: str) -> None:
        """Add text of the answer."""
        if self.is_free or self._is_call:
            return
        self._text += text
        begun = self._text.lstrip()
        if any(tag.startswith(begun) for tag in _TAGS):
            return
        match = _BEHIND_TAG.match(begun)
        behind = _BLANKS.sub("", match[1]) if match else ""
        name = behind[len(_BEGINS) :].partition('"')[0]
        if not behind.startswith(_BEGINS[: len(behind)]):
            self.is_free = True
        elif len(behind) > len(_BEGINS) + len(name):
            self._is_call = name in self._names
            self.is_free = not self._is_call
