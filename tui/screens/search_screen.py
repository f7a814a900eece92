"""`SearchScreen`: finds a message in all chats while the user types."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from ..chats.automatic_title import shorten
from ..history.chat_search import SearchHit, Snippet, SnippetMaker
from ..history.database.history_errors import HistoryError, SearchSuperseded
from ..history.search_query import parse_query
from ..text.relative_dates import moment
from ..text.terminal_safe_text import clean

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore

LIMIT = 40
PLACEHOLDER = "Search all chats"
HELP = (
    "Any words, in any order; the last one may be unfinished.\n\n"
    '"two words"    exactly so\n'
    "model:qwen     chats with this model\n"
    "folder:work    in this folder\n"
    "after:2026-01  before:2026-06-30  after:yesterday\n"
    "is:pinned      in pinned chats"
)
LEGEND = "enter opens it there  ·  ↑↓ choose  ·  esc closes"
HIT = "bold underline $primary"
_PREVIEW = 4000


class SearchScreen(ModalScreen[SearchHit | None]):
    """Ends with the chosen hit, or None. Newer searches replace older ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+r", "dismiss", "Close", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("pageup", "move(-5)", "Page up", show=False, priority=True),
        Binding("pagedown", "move(5)", "Page down", show=False, priority=True),
    ]

    def __init__(self, store: HistoryStore, text: str = "") -> None:
        super().__init__()
        self._store = store
        self._text = text
        self._hits: list[SearchHit] = []
        self._shown_for = ""

    def compose(self) -> ComposeResult:
        yield Input(self._text, placeholder=PLACEHOLDER)
        yield Static(id="found", markup=False)
        yield OptionList(markup=False)
        yield Static(id="preview", markup=False)
        yield Static(LEGEND, id="hint", markup=False)

    def on_mount(self) -> None:
        """Search for the given text, with the cursor at its end."""
        line = self.query_one(Input)
        line.cursor_blink = False
        line.select_on_focus = False
        line.cursor_position = len(self._text)
        line.focus()
        self._look(self._text)

    def on_resize(self, event: events.Resize) -> None:
        """Small screens have no preview."""
        self.set_class(event.size.height < 22, "-short")
        self._draw()

    @on(Input.Changed)
    def changed(self, event: Input.Changed) -> None:
        """Search for the typed text."""
        self._look(event.value)

    @on(Input.Submitted)
    def submitted(self) -> None:
        """End with the highlighted hit."""
        self._choose(self.query_one(OptionList).highlighted)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        """End with the hit that was clicked."""
        self._choose(event.option_index)

    @on(OptionList.OptionHighlighted)
    def highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show more of the hit."""
        if event.option_index < len(self._hits):
            hit = self._hits[event.option_index]
            self.run_worker(partial(self._preview, hit), group="preview", exclusive=True)

    def action_move(self, lines: int) -> None:
        """Move the highlight, without leaving the query."""
        options = self.query_one(OptionList)
        if self._hits:
            place = (options.highlighted or 0) + lines
            options.highlighted = max(0, min(len(self._hits) - 1, place))

    def _look(self, text: str) -> None:
        helping = parse_query(text).is_empty
        self.set_class(helping, "-helping")
        if helping:
            self._show([], text, "")
            self.query_one("#preview", Static).update(Content(HELP).stylize("$muted"))
            return
        # Not exclusive: a cancelled worker's thread would go on, and the store ends it sooner.
        self.run_worker(self._search(text), group="search")

    async def _search(self, text: str) -> None:
        try:
            hits = await asyncio.to_thread(self._store.search, text, LIMIT)
        except SearchSuperseded:
            return
        except HistoryError as error:
            if self._is_open:
                self._show([], text, error.message)
            return
        if self._is_open and text == self.query_one(Input).value:
            count = f"{len(hits)}{'+' if len(hits) == LIMIT else ''}"
            found = "1 hit" if len(hits) == 1 else f"{count} hits"
            self._show(hits, text, found if hits else "Nothing found.")

    @property
    def _is_open(self) -> bool:
        """Whether the widgets are still there: the user may choose while a thread searches."""
        return bool(self.query("#preview"))

    def _show(self, hits: list[SearchHit], text: str, found: str) -> None:
        self._hits = hits
        self._shown_for = text
        self.query_one("#found", Static).update(Content(found))
        self.query_one("#preview", Static).update("")
        self.query_one(OptionList).highlighted = None
        self._draw()

    def _draw(self) -> None:
        options = self.query_one(OptionList)
        width = max(30, self.size.width - (5 if self.has_class("-short") else 7))
        now = datetime.now().astimezone()
        place = options.highlighted
        options.set_options([hit_line(hit, now, width) for hit in self._hits])
        options.highlighted = min(place or 0, len(self._hits) - 1) if self._hits else None

    async def _preview(self, hit: SearchHit) -> None:
        if hit.message is None:
            self.query_one("#preview", Static).update(Content("The title of the chat."))
            return
        try:
            text = await asyncio.to_thread(self._store.message_text, hit.message)
        except HistoryError:
            return
        if not self._is_open:
            return
        maker = SnippetMaker(parse_query(self._shown_for).terms)
        self.query_one("#preview", Static).update(preview(maker, text))

    def _choose(self, place: int | None) -> None:
        if place is not None and place < len(self._hits):
            self.dismiss(self._hits[place])


def hit_line(hit: SearchHit, now: datetime, width: int) -> Content:
    """Two lines: the chat of a hit, and its snippet with the searched words marked."""
    speaker = {"user": "you", "assistant": hit.model or "answer", "tool": "tool"}.get(
        hit.role, "title"
    )
    facts = [clean(hit.folder), clean(speaker), moment(hit.created, now)]
    place = "  ".join(fact for fact in facts if fact)
    room = max(10, width - cell_len(place) - 4)
    title = shorten(" ".join(clean(hit.title).split()) or "Untitled", room)
    gap = " " * max(2, width - 2 - cell_len(title) - cell_len(place))
    mark = "◆ " if hit.pinned else "  "
    head = Content.assemble((mark, "$primary"), (title, "bold"), gap, (place, "$muted"))
    return Content.assemble(head, "\n  ", _marked(hit.snippet, width - 2))


def _marked(snippet: Snippet, width: int) -> Content:
    """The snippet on one line, moved so that its first hit can be seen."""
    text = Content(snippet.text)
    for start, end in snippet.hits:
        text = text.stylize(HIT, start, end)
    if snippet.hits and cell_len(snippet.text[: snippet.hits[0][1]]) > width - 4:
        text = Content("…") + text[max(0, snippet.hits[0][0] - width // 4) :]
    return text.truncate(width, ellipsis=True)


def preview(maker: SnippetMaker, text: str) -> Content:
    """The part of a message around its first hit, with its lines."""
    text = clean(text)
    hits = maker.hits(text)
    start = 0
    if hits:
        # One line before the hit, so that it does not stand at the very edge.
        line = text.rfind("\n", 0, hits[0][0])
        start = max(0, text.rfind("\n", 0, max(0, line)) + 1, hits[0][0] - 300)
    shown = text[start : start + _PREVIEW]
    content = Content(shown)
    for begin, end in maker.hits(shown):
        content = content.stylize(HIT, begin, end)
    return content
