"""`HistoryFeature`: all chats: to find, open, name, sort, keep and delete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...history.chat_opening import load_at
from ...history.database.history_errors import HistoryError
from ...text import number_format
from ..feature import Feature, Handler
from .encryption_feature import EncryptionFeature

if TYPE_CHECKING:
    from ...history.chat_search import SearchHit
    from ...history.history_store import HistoryStore
    from ...history.imports.import_chats import ImportReport
    from ...screens.dialogs.line_input_screen import LineInputScreen

TEMPORARY = "This chat is temporary: it is not kept, so there is nothing to {deed}."
NOTHING_KEPT = "Chats are not kept here, so there are none to show."


class HistoryFeature(Feature):
    """Commands about chats as wholes, the one on the screen and all others."""

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "search": self.search,
            "open": lambda _: self.open(),
            "rename": self.rename,
            "folder": self.folder,
            "keep": lambda _: self.keep(),
            "delete": lambda _: self.delete(),
            "export": self.export,
            "import": self.import_,
        }

    def search(self, text: str) -> None:
        """Search all chats as one types, beginning with `text`."""
        store = self._store(lambda: self.search(text))
        if store is None:
            return
        from ...screens.search_screen import SearchScreen

        self.host.show_screen(SearchScreen(store, text), self._open_hit)

    def open(self) -> None:
        """Show all chats."""
        store = self._store(self.open)
        if store is None:
            return
        from ...screens.chat_list_screen import ChatListScreen

        screen = ChatListScreen(
            store,
            self,
            current=self.host.chat.id,
            push=self.host.show_screen,
            on_search=self._search_next,
        )
        self.host.show_screen(screen, self._open_listed)

    async def rename(self, title: str) -> None:
        """Give the chat on the screen a title, or ask for one."""
        chat = self.host.chat
        if title:
            await self.rename_chat(chat.id, title)
            return
        from ...screens.dialogs.line_input_screen import LineInputScreen

        self._ask(
            LineInputScreen("Title", chat.title), lambda text: self.rename_chat(chat.id, text)
        )

    async def folder(self, name: str) -> None:
        """Put the chat on the screen into a folder, or ask which."""
        chat, store = self.host.chat, self.host.store
        if name:
            await self.move_chat(chat.id, name)
            return
        from ...screens.dialogs.line_input_screen import LineInputScreen

        try:
            names = [] if store is None else await asyncio.to_thread(store.folders)
        except HistoryError:
            names = []
        asked = LineInputScreen(
            "Folder",
            chat.settings.folder,
            note="In use: " + ", ".join(each for each, _ in names) if names else "",
            legend="enter keeps it · empty takes it out · → completes · esc",
            suggestions=[each for each, _ in names],
        )
        self._ask(asked, lambda text: self.move_chat(chat.id, text))

    async def keep(self) -> None:
        """Keep the chat on the screen at the top of the list, or no longer."""
        chat = self.host.chat
        if chat.temporary:
            self.host.tell(TEMPORARY.format(deed="pin"), "warning")
            return
        await self.pin_chat(chat.id, not chat.settings.pinned)
        pinned = "The chat stays at the top of the list." if chat.settings.pinned else "Unpinned."
        self.host.tell(pinned)

    async def delete(self) -> None:
        """Delete the chat on the screen for good, after asking."""
        from ...screens.chat_list_screen import deletion_screen

        chat, store = self.host.chat, self.host.store
        if chat.temporary or not chat.messages or store is None:
            deed = TEMPORARY.format(deed="delete")
            self.host.tell(deed if chat.temporary else "There is nothing to delete yet.")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.host.run_task(self.delete_chat(chat.id), group="delete")

        self.host.show_screen(deletion_screen(chat.title, len(chat.messages)), answered)

    async def export(self, argument: str) -> None:
        """Write the chat on the screen to a file: `md`, `json` or `html`, and where."""
        from ...history.exports.write_export import parse_export, write_export

        chat = self.host.chat
        if not chat.messages:
            self.host.tell("There is nothing to export yet.")
            return
        kind, path = parse_export(argument)
        try:
            written = await asyncio.to_thread(write_export, chat.copy(), kind, path, Path.cwd())
        except HistoryError as error:
            self.host.tell(f"{error.message} {error.hint or ''}".strip(), "warning")
            return
        self.host.tell(f"Written to {written}.")

    async def import_(self, argument: str) -> None:
        """Take over the chats in a file of another program."""
        store = self._store()
        if store is None:
            return
        if not argument:
            from ...history.imports.import_file_reader import KNOWN
            from ...screens.dialogs.line_input_screen import LineInputScreen

            asked = LineInputScreen(
                "Import chats", note=KNOWN, legend="enter imports this file  ·  esc"
            )
            self._ask(asked, self._import_named)
            return
        await self._import_named(argument)

    async def _import_named(self, name: str) -> None:
        store = self._store()
        if store is None or not name:
            return
        from ...screens.dialogs.progress_screen import ProgressScreen

        path = Path(name.strip("\"'"))
        screen = ProgressScreen(f"Importing {path.name}")
        self.host.show_screen(screen)

        def progress(report: ImportReport) -> bool:
            of = f" of {number_format.tokens(report.total)}" if report.total else ""
            read, new = number_format.tokens(report.seen), number_format.tokens(report.messages)
            screen.tell(f"{read}{of} chats read, {new} messages new")
            return not screen.is_cancelled

        try:
            report = await asyncio.to_thread(store.import_file, path, progress)
        except HistoryError as error:
            self.host.tell(f"{error.message} {error.hint or ''}".strip(), "error")
        else:
            self.host.tell(report.sentence(), "warning" if report.failed else "information")
        finally:
            screen.finish()

    async def rename_chat(self, chat: str, title: str) -> None:
        """Give a chat a title; an empty one is made from its first words again."""
        await self._change(chat, title=" ".join(title.split()))

    async def pin_chat(self, chat: str, pinned: bool) -> None:
        """Keep a chat at the top of the list, or no longer."""
        await self._change(chat, pinned=pinned)

    async def move_chat(self, chat: str, folder: str) -> None:
        """Put a chat into a folder; "" takes it out."""
        await self._change(chat, folder=" ".join(folder.split()))

    async def delete_chat(self, chat: str) -> None:
        """Delete a chat for good; the one on the screen gives way to a new one first."""
        store = self.host.store
        if store is None:
            return
        if chat == self.host.chat.id:
            self.host.run_command("new")
        store.delete_chat(chat)
        if await asyncio.to_thread(store.flush):
            self.host.tell("The chat is deleted.")
        else:
            self.host.tell("The chat is deleted as soon as the history can be written.", "warning")

    async def _change(self, chat: str, **changes: object) -> None:
        """Change settings of a chat, on the screen or not."""
        shown, store = self.host.chat, self.host.store
        try:
            if chat == shown.id:
                settings = shown.settings
            elif store is not None:
                settings = await asyncio.to_thread(store.settings, chat)
            else:
                return
        except HistoryError as error:
            self.host.tell(error.message, "warning")
            return
        for name, value in changes.items():
            setattr(settings, name, value)
        if chat != shown.id and store is not None:
            store.set_settings(chat, settings)
            return
        # A chat without messages is not kept yet; its first one brings the settings along.
        if shown.messages:
            self.host.history.set_settings(chat, settings)
        self.host.show_state()

    def _ask(
        self, question: LineInputScreen, act: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        def answered(text: str | None) -> None:
            if text is not None:
                self.host.run_task(act(text), group="history")

        self.host.show_screen(question, answered)

    def _store(self, then: Callable[[], None] | None = None) -> HistoryStore | None:
        """The store, where it can be read; asks for its passphrase first, and goes on with that."""
        store = self.host.store
        if store is None:
            self.host.tell(NOTHING_KEPT, "warning")
        elif store.database.is_locked:
            self.host.feature(EncryptionFeature).unlock(then)
            return None
        return store

    def _search_next(self, text: str) -> None:
        # Once the list is closed: a screen cannot be pushed while another one is popped.
        self.host.chat_app.call_later(self.search, text)

    def _open_listed(self, chat: str | None) -> None:
        if chat is not None:
            self.host.run_task(self._open(chat, None), group="open")

    def _open_hit(self, hit: SearchHit | None) -> None:
        if hit is not None:
            self.host.run_task(self._open(hit.chat, hit.message), group="open")

    async def _open(self, chat: str, at: str | None) -> None:
        shown, store = self.host.chat, self.host.store
        if chat == shown.id:
            # It may be longer here than it is on the disk.
            message = shown.messages.get(at) if at is not None else None
            if message is not None and message not in shown.path:
                shown.choose(message)
                self.host.history.choose(shown.id, message.id)
            self.host.show_path(at=at)
            return
        if store is None:
            return
        try:
            loaded = await asyncio.to_thread(load_at, store, chat, at)
        except HistoryError as error:
            self.host.tell(error.message, "error")
            return
        if loaded is None:
            self.host.tell("This chat was deleted in another window.", "warning")
            return
        self.host.open_chat(loaded, at=at)
