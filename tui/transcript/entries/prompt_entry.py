"""Transcript entry of a prompt, with its attachments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from rich.style import Style
from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean, clean_line
from ..lines import BLANK, EntryBlock, RenderedLine, single_line, wrap, wrap_plain
from .entry import INDENT, MessageEntry, MessageFields, RenderOptions

if TYPE_CHECKING:
    from ...chats.message import Attachment

MAX_SHOWN = 400
"""Most lines shown of an unfolded attachment."""


class PromptEntry(MessageEntry):
    """A prompt of the user."""

    def __init__(
        self,
        text: str,
        *,
        attachments: Sequence[Attachment] = (),
        **fields: Unpack[MessageFields],
    ) -> None:
        super().__init__("", fields)
        self._text = text
        self._attachments = tuple(attachments)
        self._thumbnails: dict[int, list[Text]] = {}

    def pictures(self) -> list[tuple[int, str]]:
        """Return the places and data URIs of pictures that have no thumbnail yet."""
        return [
            (index, attachment.picture)
            for index, attachment in enumerate(self._attachments)
            if attachment.picture and index not in self._thumbnails
        ]

    def set_thumbnail(self, index: int, lines: list[Text]) -> None:
        """Show a picture below its name, unless it is folded."""
        self._thumbnails[index] = lines
        self.forget_lines()

    @property
    def text(self) -> str:
        self._text = clean(self._text)
        return self._text

    def _source(self) -> str:
        return self._text

    def _name_and_style(self, options: RenderOptions) -> tuple[str, Style]:
        return "you", options.styles.you

    def _render(self, options: RenderOptions) -> list[RenderedLine]:
        lines = self._header(options)
        for index, attachment in enumerate(self._attachments):
            drawn = self._thumbnails.get(index, [])
            lines += self._attachment(f"attachment:{index}", attachment, drawn, options)
        if self.text:
            lines += [line.prefixed(INDENT) for line in wrap_plain(self.text, options.width - 2)]
        return [*lines, BLANK]

    def _attachment(
        self, key: str, attachment: Attachment, drawn: list[Text], options: RenderOptions
    ) -> list[RenderedLine]:
        """Return a chip, followed by the text or the picture if unfolded."""
        folded = self.is_folded(key, not drawn)
        block = EntryBlock("attachment", key, attachment.text, folded)
        name = clean_line(attachment.name)
        size = f" · {number_format.counted(len(attachment.text), 'character')}"
        if attachment.picture:
            size = f" · picture, {number_format.size(attachment.size)}"
        facts = size + ("" if folded else " ▾")
        label = Text(f"⊞ {name}", options.styles.chip, end="")
        label.truncate(max(6, options.width - 2 - len(facts)), overflow="ellipsis")
        label.append(facts, options.styles.muted)
        chip = single_line(label, options.width - 2).prefixed(INDENT).within(block, handle="fold")
        if not folded and drawn:
            lines = [single_line(line, options.width - 2).prefixed(INDENT) for line in drawn]
            return [chip, *(line.within(block) for line in lines)]
        if folded or attachment.picture:
            return [chip]
        rows = clean(attachment.text[: MAX_SHOWN * 200]).expandtabs(4).split("\n")
        body = wrap_plain("\n".join(rows[:MAX_SHOWN]), options.width - 4)
        if len(rows) > MAX_SHOWN:
            more = f"… {number_format.counted(len(rows) - MAX_SHOWN, 'more line')}"
            body += wrap(Text(more, options.styles.muted, end=""), options.width - 4)
        bar = options.styles.quote
        return [chip, *(line.prefixed(f"{INDENT}▏ ", bar).within(block) for line in body)]
