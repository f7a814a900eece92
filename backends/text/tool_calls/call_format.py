"""Data types that describe a tool call format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ..streaming.text_source import Steps, TextSource
from .call_sink import CallSink

_NAME = re.compile(r"[^\s<>{}\[\]\"'`|]+")


@dataclass(frozen=True)
class CallContext:
    """The source that a call is read from, and the sink of its parts.

    If `known_only`, a call of an unknown tool does not count. `ends` are the tags that close calls,
    which also end an incomplete one.
    """

    source: TextSource
    sink: CallSink
    known_only: bool
    ends: Sequence[str]

    def accepts(self, name: str) -> bool:
        """Return whether a call with this name is valid."""
        spelled = _NAME.fullmatch(name) is not None
        return spelled and self.sink.accepts(name, known_only=self.known_only)


class Body(Protocol):
    """Parses a call after the tag that opens it."""

    def read(self, call: CallContext) -> Steps[bool]:
        """Read calls up to their closing tag; return False if there is none.

        Text may have been consumed in either case.
        """
        ...


@dataclass(frozen=True)
class Opener:
    """A tag that opens a call; without a `body`, another one must follow it."""

    tag: str
    body: Body | None = None
    known_only: bool = False


@dataclass(frozen=True)
class CallFormat:
    """A call format, detected by any of the texts in `signs` in a template.

    `call` is the exact spelling that a grammar forces: it contains «name» and «arguments», and
    perhaps «id», a number, or «id9», as Mistral has it. `around` is what stands before the first
    call, between two and after the last one.

    Arguments that are not a JSON object are a list with a `separator`: each of them is a `member`,
    which contains «key» and «value», and perhaps «text», whether the value is a string. `values`
    are JSON; strings are literal text if `values` are text, or if they stand between `quotes`.

    After a call any of the `closers` is dropped, and `dropped` anywhere, in which «name» is that of
    any tool. Constrained text follows `before_text`, and `behind_text` follows it.
    """

    name: str
    signs: tuple[str, ...]
    call: str
    openers: tuple[Opener, ...] = ()
    closers: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    around: tuple[str, str, str] = ("", "", "")
    member: str | None = None
    separator: str = ""
    quotes: tuple[str, str] | None = None
    values: Literal["json", "text"] = "json"
    strays: bool = False
    """Whether models with this format sometimes write calls in other ways, even after text."""
    bare: tuple[str, ...] = ()
    """Beginnings of calls without tags, in which «name» is that of any tool."""
    prompt_prefix: str = ""
    """The part of an answer's beginning that the prompt already contains."""
    before_text: str = ""
    behind_text: str = ""
    one_call: bool = False
    """Whether the model ends its answer after the first call."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Return every text that may contain a control token."""
        texts = (self.call, *self.around, self.member or "", self.before_text, self.behind_text)
        openers = tuple(opener.tag for opener in self.openers)
        return (*openers, *self.closers, *self.dropped, *texts, *(self.quotes or ()))
