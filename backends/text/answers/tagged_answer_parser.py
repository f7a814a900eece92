"""Splits an answer with tags into text, reasoning and tool calls, incrementally."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...base.conversation import Tool
from ..streaming.text_source import Steps, TextSource, pass_until
from ..templates.reasoning_tags import ReasoningTags
from ..tool_calls.call_format import CallContext, CallFormat, Opener
from ..tool_calls.call_sink import AnswerReasoning, AnswerText
from ..tool_calls.json_calls import JsonCalls
from .answer_parser import AnswerParser

_JSON = JsonCalls()
_FENCES = tuple(
    Opener(fence, _JSON, known_only=True)
    for fence in ("```json", "```tool_code", "```tool_call", "```python", "```xml", "```")
)
_WRAPPERS = tuple(
    Opener(tag, _JSON, known_only=True)
    for tag in ("<tool_call>", "<function_call>", "<tools>", "<tool>", "<response>", "<json>")
)
_LOOSE_CLOSERS = ("```", "</tool_call>", "</function_call>", "</tools>", "</tool>", "</response>")
_BLANK = re.compile(r"\s+")


class TaggedAnswerParser(AnswerParser):
    """Parses reasoning within `tags` and calls in `call_format`; see `AnswerParser`.

    An answer may begin within reasoning. If `lenient`, untagged calls of known tools count at the
    beginning of the content.
    """

    def __init__(
        self,
        call_format: CallFormat,
        tags: ReasoningTags | None,
        tools: Sequence[Tool] = (),
        *,
        parallel: bool = True,
        thinking: bool = False,
        lenient: bool = True,
        names: Sequence[str] = (),
    ) -> None:
        self._format = call_format
        super().__init__(
            tools,
            parallel=parallel,
            names=names,
            prompt_prefix=call_format.prompt_prefix,
            thinking=thinking,
        )
        self._lenient = lenient and self._calls
        self._fresh = True  # nothing but calls and reasoning so far
        self._stripped = False  # whether blanks here follow a call or reasoning
        self._blanks: list[str] = []
        self._spoken = False  # whether there was text
        self._gap = ""  # what separates text before and after calls
        openers = call_format.openers if self._calls else ()
        loose = (*_FENCES, *_WRAPPERS) if self._lenient else ()
        self._openers = {opener.tag: opener for opener in (*loose, *openers)}
        self._dropped = [tag for tag in call_format.dropped if "«name»" not in tag]
        for tag in call_format.dropped:
            if "«name»" in tag:
                self._dropped += [tag.replace("«name»", tool.name) for tool in tools]
        self._opens, self._closes = (tags.opens, tags.closes) if tags is not None else ((), ())
        # These never occur in plain text, so reasoning may begin anywhere.
        self._reasoning_openers = [tag for tag in self._opens if tag.startswith(("<|", "["))]
        strays = loose if call_format.strays else ()
        calls = [opener.tag for opener in (*strays, *openers)]
        self._anywhere_tags = [*self._dropped, *self._reasoning_openers, *calls]
        self._words = [
            word.replace("«name»", tool.name) for word in call_format.bare for tool in tools
        ]
        body = call_format.openers[0].body if call_format.bare else _JSON
        self._untagged = Opener("", body, known_only=True)

    def _read(self) -> Steps[None]:
        if self.thinking:
            yield from self._read_reasoning()
        while not self._source.exhausted:
            if self._fresh:
                yield from self._read_beginning()
            else:
                yield from self._read_text()
        self._flush(AnswerText)

    def _read_beginning(self) -> Steps[None]:
        """Read the beginning of the content, or the text after reasoning or a call."""
        yield from self._skip_blanks()
        if (yield from self._source.accept(*self._opens)):
            self.thinking = True
            self._blanks.clear()
            yield from self._read_reasoning()
            return
        if (yield from self._source.accept(*self._closes, *self._dropped)):
            self._blanks.clear()
            self._stripped = True
            return
        opener = yield from self._opener()
        if opener is not None:
            yield from self._read_call(opener)
        else:
            self._fresh = False

    def _skip_blanks(self) -> Steps[None]:
        """Read leading blanks, which belong to the text if text follows."""
        while True:
            blanks = self._source.take_run(_BLANK)
            if blanks and not self._stripped:
                self._blanks.append(blanks)
            if not self._source.empty or self._source.ended:
                return
            yield

    def _opener(self) -> Steps[Opener | None]:
        """Return the opener of a call that begins here, tagged or untagged; None without one."""
        tag = yield from self._source.at(list(self._openers))
        if tag:
            return self._openers[tag]
        char = yield from self._source.peek()
        if self._lenient and char and (char in "{[" or (yield from self._source.at(self._words))):
            return self._untagged
        return None

    def _read_reasoning(self) -> Steps[None]:
        """Read reasoning up to its closing tag; surrounding blanks are dropped."""
        calls = [opener.tag for opener in self._format.openers] if self._calls else []
        yield from self._source.skip_space()
        while not self._source.exhausted:
            tag = yield from pass_until(
                self._source,
                [*self._closes, *calls],
                lambda text: self._emit(text, AnswerReasoning),
                take=self._closes,
            )
            if tag in self._closes:
                self.thinking = False
                break
            if tag:
                yield from self._read_call_in_reasoning(tag)
                if not self.thinking:
                    break
        self._blanks.clear()
        self._fresh = self._stripped = True

    def _read_call_in_reasoning(self, tag: str) -> Steps[None]:
        """Read after a tag within reasoning: a call only if it is complete, and the reasoning is
        not.

        Models describe calls before making them, and some omit the end of the reasoning.
        """
        self._source.take(len(tag))
        char = yield from self._source.ahead()
        if isinstance(self._openers[tag].body, JsonCalls | None) and char not in ("{", "[", "<"):
            self._emit(tag, AnswerReasoning)
            return
        held = [tag]
        closed = yield from pass_until(self._source, self._closes, held.append, take=())
        text = "".join(held)
        ends = self._format.closers
        complete = text.rstrip().endswith(("}", "]")) or any(end in text for end in ends)
        if closed or not complete:
            self._emit(text, AnswerReasoning)
        else:
            self._source = TextSource(text, ended=True)
            self.thinking = False

    def _read_text(self) -> Steps[None]:
        """Read text up to the next call."""
        tags = self._anywhere_tags
        tag = yield from pass_until(self._source, tags, self._emit, take=self._dropped)
        if tag in self._openers:
            yield from self._read_call(self._openers[tag])
        elif tag in self._reasoning_openers:
            self._source.take(len(tag))
            self.thinking = True
            self._flush(AnswerText)
            yield from self._read_reasoning()

    def _read_call(self, opener: Opener) -> Steps[None]:
        """Read calls after an opening tag; anything else becomes text."""
        self._source.keep()
        self._source.take(len(opener.tag))
        if (yield from self._read_body(opener)):
            self._source.kept()
            self.is_complete = self._sink.closed
            if self._spoken and not self._gap:
                self._gap = "".join(self._blanks) or "\n"
            self._blanks.clear()
            yield from self._drop_closers()
            self._fresh = self._stripped = True
        else:
            self._emit(self._source.kept(), AnswerText)
            self._fresh = False

    def _read_body(self, opener: Opener) -> Steps[bool]:
        while opener.body is None:
            yield from self._source.skip_space()
            tag = yield from self._source.accept(*(one.tag for one in self._format.openers))
            if not tag:
                opener = Opener("", _JSON)
                break
            opener = self._openers[tag]
        ends = (*self._format.closers, *(_LOOSE_CLOSERS if opener.known_only else ()))
        body = opener.body or _JSON
        call = CallContext(self._source, self._sink, opener.known_only, ends)
        return (yield from body.read(call))

    def _drop_closers(self) -> Steps[None]:
        """Read the tags that close calls, and surplus brackets."""
        loose = _LOOSE_CLOSERS if self._lenient else ()
        closers = [tag for tag in (*self._format.closers, *loose) if tag]
        while True:
            yield from self._source.skip_space()
            tag = yield from self._source.at([*self._openers, *closers])
            if tag in closers:
                self._source.take(len(tag))
            elif tag or not (yield from self._source.accept("}", "]", ",", ";")):
                return

    def _emit(self, text: str, kind: type[AnswerText] | type[AnswerReasoning] = AnswerText) -> None:
        """Emit text; trailing blanks are held until it is known whether they are dropped."""
        if not text:
            return
        if kind is AnswerText and not self._calls:
            self._flush(AnswerText)
            self._sink.put(AnswerText(text))
            return
        body = text.rstrip()
        if body:
            if kind is AnswerText:
                self._sink.text(self._gap)
                self._gap, self._spoken = "", True
            self._flush(kind)
            self._sink.put(kind(body))
        if len(body) < len(text):
            self._blanks.append(text[len(body) :])

    def _flush(self, kind: type[AnswerText] | type[AnswerReasoning]) -> None:
        if self._blanks:
            self._sink.put(kind("".join(self._blanks)))
            self._blanks.clear()
