"""The entries of the transcript: prompts, answers, notices. Each renders itself to lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from .cleaning import StreamCleaner, clean
from .line import BLANK, Line
from .styles import TranscriptStyles
from .wrapping import wrap, wrap_plain

if TYPE_CHECKING:
    from .markdown_stream import MarkdownStream

INDENT = "  "
CARET = "▍"


@dataclass(frozen=True, slots=True)
class Look:
    """What rendering depends on: the styles and the width in cells."""

    styles: TranscriptStyles
    width: int


class Entry(ABC):
    """Something in the transcript; its lines are kept until its content or the look changes."""

    def __init__(self) -> None:
        self._look: Look | None = None
        self._lines: list[Line] = []

    def lines(self, look: Look) -> list[Line]:
        """The rendered lines, a blank one last."""
        if look != self._look:
            self._look = look
            self._lines = self._render(look)
        return self._lines

    @property
    def previous_lines(self) -> list[Line]:
        """The lines as they were rendered last, maybe before a change."""
        return self._lines

    def estimated_height(self, width: int) -> int:
        """About how many lines there will be, without rendering."""
        room = max(8, width - 2)
        return 3 + sum(len(line) // room + 1 for line in self.text.split("\n"))

    @property
    @abstractmethod
    def text(self) -> str:
        """What a reader would copy."""

    @abstractmethod
    def _render(self, look: Look) -> list[Line]: ...

    def _changed(self) -> None:
        self._look = None


class PromptEntry(Entry):
    """What the user asked."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = clean(text)

    @property
    def text(self) -> str:
        return self._text

    def _render(self, look: Look) -> list[Line]:
        head = _header("you", "", look.styles.you, look)
        body = wrap_plain(self._text, look.width - 2)
        return [*head, *(line.prefixed(INDENT) for line in body), BLANK]


class NoticeEntry(Entry):
    """A sentence from the chat itself: what failed or what is offered, and what to do next."""

    def __init__(
        self, message: str, hint: str | None = None, kind: Literal["error", "notice"] = "notice"
    ) -> None:
        super().__init__()
        self.kind = kind
        self._message = clean(message)
        self._hint = clean(hint) if hint else None

    @property
    def text(self) -> str:
        return self._message if self._hint is None else f"{self._message}\n{self._hint}"

    def _render(self, look: Look) -> list[Line]:
        style = look.styles.error if self.kind == "error" else look.styles.notice
        lines = wrap(Text(self._message, style, end=""), look.width - 2)
        if self._hint:
            lines += wrap(Text(self._hint, look.styles.muted, end=""), look.width - 2)
        first, *others = lines
        mark = "✗ " if self.kind == "error" else "· "
        head = first.prefixed(mark, style)
        return [head, *(line.prefixed(INDENT) for line in others), BLANK]


class AnswerEntry(Entry):
    """What the model says; it grows until `finish`."""

    def __init__(self, model: str, note: str = "") -> None:
        super().__init__()
        self.model = clean(model)
        self._note = note
        self._ending = ""
        self._cleaner = StreamCleaner()
        self._text = ""
        self._pending = ""
        self._finished = False
        self._stream: MarkdownStream | None = None
        self._stream_look: Look | None = None

    @property
    def text(self) -> str:
        return self._text

    @property
    def finished(self) -> bool:
        """Whether no more text will come."""
        return self._finished

    def append(self, text: str) -> None:
        """Add generated text; it shows at the next rendering."""
        clean_text = self._cleaner.feed(text)
        self._text += clean_text
        self._pending += clean_text
        self._changed()

    def annotate(self, note: str) -> None:
        """Say something beside the model's name, such as the speed."""
        if note != self._note:
            self._note = note
            self._changed()

    def finish(self, ending: str = "") -> None:
        """No more text will come; `ending` says why where the text does not end by itself."""
        held = self._cleaner.flush()
        self._text += held
        self._pending += held
        self._finished = True
        self._ending = ending
        self._changed()

    def _render(self, look: Look) -> list[Line]:
        lines = [*_header(self.model, self._note, look.styles.model, look), *self._body(look)]
        if self._ending:
            ending = wrap(Text(self._ending, look.styles.muted, end=""), look.width - 2)
            lines += [line.prefixed(INDENT) for line in ending]
        return [*lines, BLANK]

    def _body(self, look: Look) -> list[Line]:
        """The text's lines; while it grows only its end is rendered again."""
        # Imported with the first answer: the parser would hold up the first key.
        from .markdown_stream import MarkdownStream, render_markdown

        stream = self._stream if look == self._stream_look else None
        if self._finished and stream is None:
            lines = render_markdown(self._text, look.styles, look.width - 2)
            return [line.prefixed(INDENT) for line in lines]
        if stream is None:
            stream = self._stream = MarkdownStream(look.styles, look.width - 2, INDENT)
            self._stream_look = look
            self._pending = self._text
        pending, self._pending = self._pending, ""
        stream.append(pending)
        if self._finished:
            stream.finish()
            self._stream = None
            return stream.lines
        return _with_caret(stream.lines, look)


def _with_caret(lines: list[Line], look: Look) -> list[Line]:
    """The lines with a mark where the next text will come."""
    caret = Segment(CARET, look.styles.caret)
    if not lines:
        return [Line((Segment(INDENT), caret), indent=len(INDENT))]
    last = lines[-1]
    if sum(segment.cell_length for segment in last.segments) >= look.width:
        return lines
    return [*lines[:-1], Line((*last.segments, caret), last.soft, last.indent)]


def _header(name: str, note: str, style: Style, look: Look) -> list[Line]:
    """One line: who speaks, and what is known about it, cut to the width."""
    text = Text.assemble(("▌ ", style), (name, style), end="")
    if note:
        text.append(f"  {note}", look.styles.muted)
    text.truncate(look.width, overflow="ellipsis")
    return wrap(text, look.width + 1)[:1]
