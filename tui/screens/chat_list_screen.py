"""`ChatListScreen`: all chats, to open, name, pin, put into folders and delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ..chats.automatic_title import shorten
from ..commands.chat_session import LineQuestion
from ..commands.history_commands import FOLDER_LEGEND, change_chat, delete_chat
from ..history.database.history_errors import HistoryError
from ..text import number_format
from ..text.relative_dates import day_group, moment
from ..text.terminal_safe_text import clean

if TYPE_CHECKING:
    from ..commands.chat_session import ChatSession
    from ..history.database.row_reads import ChatSummary
    from ..history.history_store import HistoryStore

READ = 5000
SHOWN = 80
"""Lines drawn at first, so that typing stays fast; moving to the end adds more."""
PLACEHOLDER = "Filter by title, model, folder or draft"
LEGEND = (
    "enter open · f2 rename · f3 pin · f4 folder · f8 delete · tab next folder · "
    "ctrl+r search inside · esc"
)
SHORT_LEGEND = "enter open · f2 name f3 pin f4 folder f8 delete · esc"


class ChatListScreen(ModalScreen[str | None]):
    """Ends with the id of the chosen chat, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+g", "dismiss", "Close", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("pageup", "move(-10)", "Page up", show=False, priority=True),
        Binding("pagedown", "move(10)", "Page down", show=False, priority=True),
        Binding("tab", "folder(1)", "Next folder", show=False, priority=True),
        Binding("shift+tab", "folder(-1)", "Folder before", show=False, priority=True),
        Binding("f2", "change('rename')", "Rename", show=False, priority=True),
        Binding("f3", "change('pin')", "Pin", show=False, priority=True),
        Binding("f4", "change('move')", "Folder", show=False, priority=True),
        Binding("f8", "change('delete')", "Delete", show=False, priority=True),
        Binding("ctrl+r", "search", "Search", show=False, priority=True),
    ]

    def __init__(
        self, store: HistoryStore, session: ChatSession, text: str, on_search: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._text = text
        self._on_search = on_search
        self._chats: list[ChatSummary] = []
        self._words: dict[str, str] = {}
        self._limit = SHOWN
        self._lines: list[ChatSummary | None] = []
        self._folders: list[str] = []
        self._folder: str | None = None

    def compose(self) -> ComposeResult:
        yield Input(self._text, placeholder=PLACEHOLDER)
        yield Static(id="folder", markup=False)
        yield OptionList(markup=False)
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Read the chats."""
        line = self.query_one(Input)
        line.cursor_blink = False
        line.focus()
        self.run_worker(partial(self._read, self._session.chat.id), group="read", exclusive=True)

    def on_resize(self, event: events.Resize) -> None:
        """Redraw the lines for the new width."""
        self.set_class(event.size.height < 20, "-short")
        long = event.size.width > cell_len(LEGEND) + 4
        self.query_one("#hint", Static).update(Content(LEGEND if long else SHORT_LEGEND))
        self._show(self._highlighted_id())

    @on(Input.Changed)
    def changed(self) -> None:
        """Filter the chats by the typed words."""
        self._limit = SHOWN
        self._show(None)

    @on(Input.Submitted)
    def submitted(self) -> None:
        """End with the highlighted chat."""
        chat = self._highlighted()
        if chat is not None:
            self.dismiss(chat.id)

    @on(OptionList.OptionSelected)
    def clicked(self, event: OptionList.OptionSelected) -> None:
        """End with the chat that was clicked."""
        chat = self._lines[event.option_index]
        if chat is not None:
            self.dismiss(chat.id)

    def action_move(self, lines: int) -> None:
        """Move the highlight, without leaving the filter."""
        options = self.query_one(OptionList)
        chats = [place for place, chat in enumerate(self._lines) if chat is not None]
        if chats:
            here = chats.index(options.highlighted) if options.highlighted in chats else 0
            if here + lines >= len(chats) and self._lines[-1] is None:
                self._limit += 4 * SHOWN
                self._show(self._highlighted_id())
                self.action_move(lines)
                return
            options.highlighted = chats[max(0, min(len(chats) - 1, here + lines))]
            if here + lines <= 0:
                options.scroll_home(animate=False)

    def action_folder(self, step: int) -> None:
        """Show the next folder; all chats come before the first one."""
        places: list[str | None] = [None, *self._folders]
        here = places.index(self._folder) if self._folder in places else 0
        self._folder = places[(here + step) % len(places)]
        self._show(None)

    def action_change(self, how: Literal["rename", "pin", "move", "delete"]) -> None:
        """Change the highlighted chat, asking for its title, folder or confirmation."""
        chat = self._highlighted()
        if chat is not None:
            self.run_worker(self._change(chat, how), group="act")

    async def _change(self, chat: ChatSummary, how: str) -> None:
        session, front, then = self._session, self._session.front, chat.id
        try:
            if how == "rename":
                title = await front.line(LineQuestion("Title", clean(chat.title)))
                if title is not None:
                    await change_chat(session, chat.id, title=title)
            elif how == "pin" and chat.messages:
                await change_chat(session, chat.id, pinned=not chat.pinned)
            elif how == "move":
                question = LineQuestion("Folder", chat.folder, "", FOLDER_LEGEND, self._folders)
                folder = await front.line(question)
                if folder is not None:
                    await change_chat(session, chat.id, folder=folder)
            elif how == "delete":
                front.present(await delete_chat(session, chat.id, chat.title, chat.messages))
                then = self._neighbour(chat) or then
        except HistoryError as error:
            self.notify(error.message, severity="warning", markup=False)
        await self._read(then)

    def action_search(self) -> None:
        """Search inside the chats for the typed text."""
        text = self.query_one(Input).value
        self.dismiss(None)
        self._on_search(text)

    async def _read(self, highlight: str | None) -> None:
        try:
            chats = await asyncio.to_thread(self._store.recent, READ)
        except HistoryError as error:
            for line in self.query("#folder").results(Static):
                line.update(Content(error.message))
            return
        if not self.query("#folder"):
            return  # the screen was left meanwhile
        self._chats = chats
        self._words = {chat.id: searched_words(chat) for chat in self._chats}
        folders = {chat.folder for chat in self._chats if chat.folder}
        self._folders = sorted(folders, key=str.casefold)
        if self._folder is not None and self._folder not in folders:
            self._folder = None
        self._show(highlight)

    def _show(self, highlight: str | None) -> None:
        """Draw the list, with the chat `highlight` or the first one highlighted."""
        words = self.query_one(Input).value.casefold().split()
        kept = [
            chat
            for chat in self._chats
            if (self._folder is None or chat.folder == self._folder)
            and all(word in self._words[chat.id] for word in words)
        ]
        now = datetime.now().astimezone()
        options: list[Option] = []
        self._lines = []
        heading = ""
        for chat in kept[: self._limit]:
            group = "Pinned" if chat.pinned else day_group(chat.changed, now)
            if group != heading:
                heading = group
                options.append(Option(Content(group), disabled=True))
                self._lines.append(None)
            options.append(Option(self._line(chat, now)))
            self._lines.append(chat)
        if len(kept) > self._limit:
            more = f"{len(kept) - self._limit} more"
            options.append(Option(Content(more), disabled=True))
            self._lines.append(None)
        shown = self.query_one(OptionList)
        shown.set_options(options)
        ids = [None if chat is None else chat.id for chat in self._lines]
        first = 1 if kept else None
        shown.highlighted = ids.index(highlight) if highlight in ids and highlight else first
        self.query_one("#folder", Static).update(self._folder_line(len(kept)))

    def _folder_line(self, count: int) -> Content:
        chats = number_format.counted(count, "chat")
        if not self._folders:
            return Content(chats if self._chats else "No chats yet.")
        names = [("All", self._folder is None), *((n, n == self._folder) for n in self._folders)]
        parts: list[str | tuple[str, str]] = [f"{chats}  "]
        for name, here in names:
            parts.append((f"[{clean(name)}]", "bold $primary") if here else (clean(name), "$muted"))
            parts.append("  ")
        return Content.assemble(*parts)

    def _line(self, chat: ChatSummary, now: datetime) -> Content:
        width = max(20, (self.size.width or 80) - (6 if self.has_class("-short") else 8))
        facts = moment(chat.changed, now)
        if width >= 70:
            count = f"{chat.messages} msg" if chat.messages else ""
            wide = [shorten(clean(chat.folder), 16), shorten(clean(chat.model), 24), count, facts]
            facts = "  ".join(fact for fact in wide if fact)
        mark = "▸ " if chat.id == self._session.chat.id else "◆ " if chat.pinned else "  "
        room = max(8, width - cell_len(facts) - 4)
        title = shorten(" ".join(clean(chat.title).split()) or "Untitled", room)
        draft = ""
        if chat.draft and room - cell_len(title) > 16:
            words = " ".join(clean(chat.draft[:200]).split())
            draft = shorten(f"  draft: {words}", room - cell_len(title))
        gap = " " * max(2, width - 2 - cell_len(title) - cell_len(draft) - cell_len(facts))
        return Content.assemble(
            (mark, "$primary"), title, (draft, "italic $secondary"), gap, (facts, "$muted")
        )

    def _highlighted(self) -> ChatSummary | None:
        place = self.query_one(OptionList).highlighted
        return self._lines[place] if place is not None and place < len(self._lines) else None

    def _highlighted_id(self) -> str | None:
        chat = self._highlighted()
        return None if chat is None else chat.id

    def _neighbour(self, chat: ChatSummary) -> str | None:
        """The chat to highlight after this one is deleted: the one below, else the one above."""
        chats = [each for each in self._lines if each is not None]
        place = chats.index(chat)
        others = chats[place + 1 : place + 2] or chats[max(0, place - 1) : place]
        return others[0].id if others else None


def searched_words(chat: ChatSummary) -> str:
    """The text that the filter searches, in lower case."""
    return f"{chat.title}\n{chat.model}\n{chat.folder}\n{chat.draft}".casefold()
