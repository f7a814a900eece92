"""Parses answers in OpenAI's Harmony format of channels, as gpt-oss writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...base.conversation import Tool
from ..streaming.text_source import Steps, pass_until
from ..tool_calls.call_sink import AnswerReasoning, AnswerText
from ..tool_calls.json_calls import read_arguments
from .answer_parser import AnswerParser

TURN = "<|start|>assistant"
"""The header before every answer."""

FINAL = "<|channel|>final<|message|>"
"""The header before text for the user."""

_MESSAGE = "<|message|>"
_START = "<|start|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>", _START)
_HEADS = (_START, "<|channel|>", _MESSAGE, "<|constrain|>", " to=", "to=", "assistant")
_LONGEST_HEADER = 512
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*([a-z]+)")


class HarmonyParser(AnswerParser):
    """Parses messages to the user, reasoning and tool calls; see `AnswerParser`.

    `begun` is the part of the answer that the prompt already contains.
    """

    def __init__(
        self,
        tools: Sequence[Tool] = (),
        *,
        parallel: bool = True,
        names: Sequence[str] = (),
        begun: str = "",
    ) -> None:
        super().__init__(tools, parallel=parallel, names=names)
        if begun:
            self.push(begun)

    def _read(self) -> Steps[None]:
        while not self._source.exhausted:
            yield from self._read_message()

    def _read_message(self) -> Steps[None]:
        """Read an optional header and the message that follows."""
        header = ""
        if (yield from self._source.at(_HEADS)):
            found = yield from self._source.until((_MESSAGE,), _LONGEST_HEADER)
            if found is None:  # incomplete or malformed
                header = yield from self._broken_header()
            else:
                header = found
                yield from self._source.accept(_MESSAGE)
        recipients = _RECIPIENT.findall(header)
        channels = _CHANNEL.findall(header)
        name = recipients[-1].removeprefix("functions.") if recipients else ""
        called = self._sink.knows(name) or (recipients and recipients[-1] != name)
        if self._calls and name and called and self._sink.accepts(name, known_only=False):
            yield from self._read_call(name)
        else:
            kind = AnswerReasoning if channels[-1:] == ["analysis"] else AnswerText
            self.thinking = kind is AnswerReasoning
            yield from pass_until(self._source, _ENDS, self._put(kind), take=_ENDS[:-1])
            self.thinking = False

    def _broken_header(self) -> Steps[str]:
        """Take a malformed header up to the next tag."""
        tag = yield from self._source.accept(*_HEADS[:4])
        if not tag:
            self._put(AnswerText)((yield from self._source.accept(*_HEADS[4:])))
        elif tag != _MESSAGE:
            yield from pass_until(self._source, (*_HEADS[:4], *_ENDS), lambda _: None, take=())
        return ""

    def _read_call(self, name: str) -> Steps[None]:
        self._sink.begin(name)
        sole = self._sink.sole_parameter(name)
        yield from read_arguments(self._source, self._sink.arguments, _ENDS, sole=sole)
        yield from pass_until(self._source, _ENDS, lambda _: None, take=_ENDS[:-1])

    def _put(self, kind: type[AnswerText] | type[AnswerReasoning]) -> Callable[[str], None]:
        return lambda text: self._sink.put(kind(text)) if text else None
