"""What one way of writing calls looks like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ..streaming.text_source import Steps, TextSource
from .call_sink import CallSink


class Body(Protocol):
    """How a call is written behind the tag that opens it."""

    def read(
        self, source: TextSource, sink: CallSink, *, known_only: bool, ends: Sequence[str]
    ) -> Steps[bool]:
        """Take calls, up to what closes them; False if this is none, whatever was taken.

        Where `known_only`, a call of a tool nobody offered is none. `ends` are the tags that close
        calls, which also end one that is incomplete.
        """
        ...


@dataclass(frozen=True)
class Opener:
    """A tag that opens a call; without a `body`, another one must follow it."""

    tag: str
    body: Body | None = None
    known_only: bool = False


@dataclass(frozen=True)
class WrittenCalls:
    """How calls are written to the letter, as a grammar forces them.

    `call` holds «name» and «arguments», and perhaps «id», a number, or «id9», as Mistral has it.
    Arguments that are not the JSON of an object are a list: each of them is a `member`, which holds
    «key» and «value», and perhaps «text», whether the value is a string. `values` are JSON; strings
    are text as it is where `values` are text, or where they stand between `quotes`.
    """

    call: str
    begin: str = ""
    between: str = ""
    end: str = ""
    member: str | None = None
    separator: str = ""
    quotes: tuple[str, str] | None = None
    values: Literal["json", "text"] = "json"


@dataclass(frozen=True)
class CallFormat:
    """One way of writing calls, which a template has that holds one of the texts in `told_by`.

    Behind a call any of the `closers` is dropped, and `dropped` wherever it stands, in which «name»
    is that of any tool. Text that must have a form stands behind `before_text`, with `behind_text`
    after it.
    """

    name: str
    told_by: tuple[str, ...]
    written: WrittenCalls
    openers: tuple[Opener, ...] = ()
    closers: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    strays: bool = False
    """Whether models with this format are known to write calls in other ways, after text, too."""
    pythonic: bool = False
    """Whether a call in Python needs no brackets."""
    begins_within: str = ""
    """What the prompt already holds of what stands before an answer."""
    before_text: str = ""
    behind_text: str = ""
    one_call: bool = False
    """Whether the model ends its answer with the first call."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Every text that may hold a control token."""
        written = self.written
        texts = (written.call, written.begin, written.between, written.end, written.member or "")
        around = (self.before_text, self.behind_text)
        openers = tuple(opener.tag for opener in self.openers)
        quotes = written.quotes or ()
        return (*openers, *self.closers, *self.dropped, *texts, *quotes, *around)
