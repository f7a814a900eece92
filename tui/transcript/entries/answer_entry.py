"""Transcript entry of an answer: reasoning and text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Unpack

from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from ...text.terminal_safe_text import StreamCleaner, clean, clean_line
from ..lines import BLANK, EntryBlock, RenderedLine, single_line, wrap
from .entry import INDENT, MessageEntry, MessageFields, RenderOptions
from .reasoning_block import KEY as THOUGHT
from .reasoning_block import ReasoningBlock

if TYPE_CHECKING:
    from ..markdown.markdown_stream import MarkdownStream

CARET = "▍"


class AnswerEntry(MessageEntry):
    """A model's answer; it grows until `finish`. The latest one shows its `facts` below it."""

    def __init__(
        self, model: str, note: str = "", *, facts: str = "", **fields: Unpack[MessageFields]
    ) -> None:
        super().__init__(note, fields)
        self._facts = facts
        self._is_latest = False
        self.model = clean_line(model)
        self._ending = ""
        self._cleaner: StreamCleaner | None = None
        self._text = ""
        self._pending = ""
        self._finished = False
        self._reasoning: ReasoningBlock | None = None
        self._stream: MarkdownStream | None = None
        self._stream_options: RenderOptions | None = None

    def complete(
        self, text: str, reasoning: str = "", ending: str = "", *, reasoning_tokens: int = 0
    ) -> AnswerEntry:
        """Set the complete answer; its text is cleaned when it is first shown."""
        self._text = text
        if reasoning:
            self._reasoning = ReasoningBlock(reasoning, reasoning_tokens)
        self._ending = ending
        self._finished = True
        self._changed()
        return self

    def answered_by(self, model: str) -> None:
        """Set the model that answers, if it differs from the one requested."""
        self.model = clean_line(model)
        self._changed()

    def annotate(self, note: str, facts: str = "") -> None:
        super().annotate(note)
        if facts != self._facts:
            self._facts = facts
            self._changed()

    def set_latest(self, is_latest: bool) -> bool:
        """Mark it as the last answer or not; return whether that changed it."""
        changed = is_latest != self._is_latest
        if changed:
            self._is_latest = is_latest
            self._changed()
        return changed

    @property
    def text(self) -> str:
        if self._cleaner is None:
            self._text = clean(self._text)
        return self._text

    @property
    def reasoning(self) -> str:
        """Return the reasoning, "" without any."""
        return "" if self._reasoning is None else self._reasoning.text

    def block_text(self, block: EntryBlock) -> str:
        if block.kind == "thought":
            return self.reasoning
        if block.kind == "fence" and not block.text and self._options is not None:
            from ..markdown.markdown_stream import render_markdown

            lines = render_markdown(self._text, self._options.styles, self._options.width - 2)
            found = (
                line.block.text for line in lines if line.block and line.block.key == block.key
            )
            return next(found, "")
        return block.text

    def _source(self) -> str:
        return self._text

    def append(self, text: str) -> None:
        """Add generated text; it shows at the next rendering."""
        if self._cleaner is None:
            self._cleaner = StreamCleaner()
        if self._reasoning is not None:
            self._reasoning.close()
        self._add(self._cleaner.feed(text))

    def append_reasoning(self, text: str, tokens: int = 0) -> None:
        """Add reasoning, which is shown apart from the answer."""
        if self._reasoning is None:
            self._reasoning = ReasoningBlock()
        self._reasoning.append(text, tokens)
        self._changed()

    def finish(self, ending: str = "") -> None:
        """Complete the answer; `ending` explains an abnormal end."""
        if self._reasoning is not None:
            self._reasoning.close()
        if self._cleaner is not None:
            self._add(self._cleaner.flush())
        self._finished = True
        self._ending = ending
        self._changed()

    def fold(self, key: str, folded: bool) -> None:
        super().fold(key, folded)
        if key != THOUGHT:
            # Settled lines of the rendered text may belong to this block.
            self._stream_options = None

    def _add(self, clean_text: str) -> None:
        self._text += clean_text
        self._pending += clean_text
        self._changed()

    def _name_and_style(self, options: RenderOptions) -> tuple[str, Style]:
        # A model known by its file is shown by the file's name.
        is_path = self.model.startswith(("/", "~", "./")) or "\\" in self.model
        name = re.split(r"[/\\]", self.model)[-1] if is_path else self.model
        return name, options.styles.model

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        lines = self._header(options)
        if self._reasoning is not None:
            alone = not self._text and not self._finished
            folded = self.is_folded(THOUGHT, options.folds_reasoning and not alone)
            lines += self._reasoning.lines(options, folded)
        if self._text or not self._finished:
            body = self._body(options)
            lines += [BLANK, *body] if body and len(lines) > 1 else body
        if self._ending:
            ending = wrap(Text(self._ending, options.styles.muted, end=""), options.width - 2)
            lines += [line.prefixed(INDENT) for line in ending]
        if self._facts and self._is_latest and self._finished:
            facts = Text(clean_line(self._facts), options.styles.muted, end="")
            facts.truncate(options.width - 2, overflow="ellipsis")
            lines.append(single_line(facts, options.width - 2).prefixed(INDENT))
        return [*lines, BLANK]

    def _body(self, options: RenderOptions) -> list[RenderedLine]:
        """Return the text's lines; while it grows, only its end is rendered again."""
        # Imported with the first answer: the parser would delay the first key.
        from ..markdown.markdown_stream import MarkdownStream, render_markdown

        # Not folded in an answer that was watched as it grew: its text would jump.
        fold_long_code = self._cleaner is None

        def is_folded(key: str) -> bool:
            return self.is_folded(key, fold_long_code)

        stream = self._stream if options is self._stream_options else None
        if self._finished and stream is None:
            return render_markdown(self.text, options.styles, options.width - 2, INDENT, is_folded)
        if stream is None:
            stream = MarkdownStream(options.styles, options.width - 2, INDENT, is_folded)
            self._stream, self._stream_options = stream, options
            self._pending = self._text
        pending, self._pending = self._pending, ""
        if pending or not stream.lines:
            stream.append(pending)
        if self._finished:
            stream.finish()
            self._stream = None
            return stream.lines
        return _with_caret(stream.lines, options)


def _with_caret(lines: list[RenderedLine], options: RenderOptions) -> list[RenderedLine]:
    """Return the lines with a caret at the end."""
    caret = Segment(CARET, options.styles.caret)
    if not lines:
        return [RenderedLine((Segment(INDENT), caret), indent=len(INDENT))]
    last = lines[-1]
    if sum(segment.cell_length for segment in last.segments) >= options.width:
        return lines
    return [*lines[:-1], RenderedLine((*last.segments, caret), last.soft, last.indent, last.block)]
