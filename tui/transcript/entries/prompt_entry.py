"""`PromptEntry`: what the user asked, with the files that went along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from ...text import number_format
from ...text.terminal_safe_text import clean
from ..lines.block import EntryBlock
from ..lines.line import BLANK, RenderedLine
from ..lines.line_wrapping import wrap, wrap_plain
from .entry import INDENT, RenderOptions
from .message_entry import MessageEntry

if TYPE_CHECKING:
    from ...chats.message import Attachment

MAX_SHOWN = 400
"""Lines of an unfolded attachment; more would only be scrolled past."""


class PromptEntry(MessageEntry):
    """What the user asked."""

    def __init__(
        self,
        text: str,
        note: str = "",
        *,
        id: str = "",  # noqa: A002
        created: float | None = None,
        attachments: Sequence[Attachment] = (),
        place: tuple[int, int] | None = None,
        pinned: bool = False,
    ) -> None:
        super().__init__(note, id=id, created=created, place=place, pinned=pinned)
        self._text = text
        self._attachments = tuple(attachments)

    @property
    def text(self) -> str:
        self._text = clean(self._text)
        return self._text

    def _source(self) -> str:
        return self._text

    def _who(self, look: RenderOptions) -> tuple[str, Style]:
        return "you", look.styles.you

    def _render(self, look: RenderOptions) -> list[RenderedLine]:
        lines = self._header(look)
        for index, attachment in enumerate(self._attachments):
            lines += self._attachment(f"attachment:{index}", attachment, look)
        if self.text:
            lines += [line.prefixed(INDENT) for line in wrap_plain(self.text, look.width - 2)]
        return [*lines, BLANK]

    def _attachment(
        self, key: str, attachment: Attachment, look: RenderOptions
    ) -> list[RenderedLine]:
        """A chip, and below it the text when it is unfolded."""
        folded = self.is_folded(key, True)
        block = EntryBlock("attachment", key, attachment.text, folded)
        name = clean(attachment.name).replace("\n", " ")
        size = f" · {number_format.tokens(len(attachment.text))} characters"
        facts = size + ("" if folded else " ▾")
        label = Text(f"⊞ {name}", look.styles.chip, end="")
        label.truncate(max(6, look.width - 2 - len(facts)), overflow="ellipsis")
        label.append(facts, look.styles.muted)
        label.truncate(look.width - 2, overflow="ellipsis")
        chip = wrap(label, look.width)[0].prefixed(INDENT).within(block, handle="fold")
        if folded:
            return [chip]
        rows = clean(attachment.text[: MAX_SHOWN * 200]).expandtabs(4).split("\n")
        body = wrap_plain("\n".join(rows[:MAX_SHOWN]), look.width - 4)
        if len(rows) > MAX_SHOWN:
            more = f"… {number_format.tokens(len(rows) - MAX_SHOWN)} more lines"
            body += wrap(Text(more, look.styles.muted, end=""), look.width - 4)
        bar = look.styles.quote
        return [chip, *(line.prefixed(f"{INDENT}▏ ", bar).within(block) for line in body)]
