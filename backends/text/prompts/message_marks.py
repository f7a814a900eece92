"""Markers that locate each message of a conversation in its rendered prompt."""

from __future__ import annotations

import re
import secrets

import msgspec

from ...base.conversation import ChatMessage

Span = tuple[int, int]
"""Start and end of a message's own words in a text, without those a template adds."""


class MessageMarks:
    """Random markers that templates treat as words."""

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(8)
        self._pattern = re.compile(rf"x{self._nonce}n(\d+)x")

    def put(self, message: ChatMessage, number: int) -> ChatMessage:
        """Return the message with markers around its texts, inside blanks that a template may
        strip.

        Empty texts stay empty, since templates treat them differently.
        """
        mark = f"x{self._nonce}n{number}x"
        return msgspec.structs.replace(
            message,
            content=_around(message.content, mark),
            reasoning=_around(message.reasoning, mark),
            tool_calls=[
                msgspec.structs.replace(call, name=_around(call.name, mark))
                for call in message.tool_calls
            ],
        )

    def take(self, text: str, count: int) -> tuple[str, list[Span | None]]:
        """Return the text without markers, and where each of `count` messages was found."""
        pieces: list[str] = []
        spans: list[Span | None] = [None] * count
        length = read = 0
        for found in self._pattern.finditer(text):
            pieces.append(text[read : found.start()])
            length += found.start() - read
            read = found.end()
            number = int(found[1])
            if number < count:
                span = spans[number]
                spans[number] = (length if span is None else span[0], length)
        pieces.append(text[read:])
        return "".join(pieces), _in_order(spans)


def _around(text: str, mark: str) -> str:
    core = text.strip()
    if not core:
        return text
    start = text.index(core)
    return f"{text[:start]}{mark}{core}{mark}{text[start + len(core) :]}"


def _in_order(spans: list[Span | None]) -> list[Span | None]:
    """Remove spans that begin before an earlier message's end."""
    end = 0
    ordered: list[Span | None] = []
    for span in spans:
        if span is not None and span[0] >= end:
            ordered.append(span)
            end = span[1]
        else:
            ordered.append(None)
    return ordered
