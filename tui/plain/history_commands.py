"""`HistoryCommands`: commands about chats as wholes, the one that is open and all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..chats.chat import Chat
from ..text import number_format

if TYPE_CHECKING:
    from ..history.chat_search import SearchHit
    from ..history.database.row_reads import ChatSummary
    from ..history.history_store import HistoryStore
    from ..history.imports.import_chats import ImportReport
    from .plain_session import PlainSession

SHOWN_CHATS = 20
SHOWN_MESSAGES = 4
NEWEST = 1000
"""Among so many chats a title is looked for."""


class HistoryCommands:
    """Finds, opens, names, sorts, keeps, locks and deletes chats."""

    def __init__(self, session: PlainSession) -> None:
        self._session = session

    def handlers(self) -> Mapping[str, Callable[[str], None]]:
        """The commands it answers, by the names in `commands.py`."""
        return {
            "search": self._search,
            "find": self._find,
            "open": self._open,
            "rename": self._rename,
            "folder": self._folder,
            "keep": lambda _: self._keep(),
            "export": self._export,
            "import": self._import,
            "delete": lambda _: self._delete(),
            "encrypt": self._encrypt,
        }

    # Finding and opening

    def _search(self, text: str) -> None:
        session, store = self._session, self._store()
        if store is None:
            return
        if not text:
            session.output.error("Say what to look for: /search TEXT.")
            return
        hits = store.search(text, SHOWN_CHATS)
        if not hits:
            session.output.line(f"Nothing is found for {text}.")
            return
        index = session.reader.choose("Found, the best first:", [_hit(hit) for hit in hits])
        if index is not None:
            self._show(store, hits[index].chat, hits[index].message)

    def _find(self, text: str) -> None:
        from ..history.search_query import parse_query
        from ..history.search_snippet import SnippetMaker

        output = self._session.output
        terms = parse_query(text).terms
        if not terms:
            output.error("Say what to look for: /find TEXT.")
            return
        maker = SnippetMaker(terms)
        path = self._session.chat.path
        hits = [m for m in path if maker.matches_all(m.text, terms)]
        for message in hits:
            who = "You" if message.role == "user" else "Model"
            place = path.index(message) + 1
            output.line(f"Message {place}, {who}: {maker.make(message.text).text}")
        output.line(f"{len(hits)} of {len(path)} messages have it.")

    def _open(self, text: str) -> None:
        session, store = self._session, self._store()
        if store is None:
            return
        wanted = text.casefold()
        chats = [chat for chat in store.recent(NEWEST) if wanted in chat.title.casefold()]
        if not chats:
            none = f"No chat is called {text}." if text else "There are no chats yet."
            session.output.line(none)
            return
        shown = chats[:SHOWN_CHATS]
        index = session.reader.choose("Chats, newest first:", [_summary(chat) for chat in shown])
        if index is not None:
            self._show(store, shown[index].id, None)

    def _show(self, store: HistoryStore, name: str, at: str | None) -> None:
        """Go over to a chat, and read out the end of it, or what was found in it."""
        from ..history.chat_opening import load_at

        session = self._session
        chat = load_at(store, name, at)
        if chat is None:
            session.output.error("This chat was deleted meanwhile.")
            return
        session.chat = chat
        path = chat.path
        first = max(0, len(path) - SHOWN_MESSAGES)
        if at is not None and at in chat.messages:
            first = path.index(chat.messages[at])
        shown = path[first : first + SHOWN_MESSAGES]
        where = f"{first + 1} to {first + len(shown)}" if shown else "none"
        session.output.line(f"{chat.title}: {len(path)} messages. Read out: {where}.")
        for message in shown:
            session.speak(message)
        if chat.settings.model is not None:
            session.wanted, session.model = chat.settings.model, None
        if path and path[-1].is_open:
            session.take_up(path[-1])

    # The chat that is open

    def _rename(self, title: str) -> None:
        if not title:
            self._session.output.error("Say how: /rename TITLE.")
            return
        self._session.chat.settings.title = " ".join(title.split())
        self._session.keep_settings()
        self._session.output.line(f"This chat is called {self._session.chat.title}.")

    def _folder(self, name: str) -> None:
        session = self._session
        if name:
            session.chat.settings.folder = "" if name == "off" else " ".join(name.split())
            session.keep_settings()
        folder = session.chat.settings.folder
        session.output.line(f"This chat is in {f'the folder {folder}' if folder else 'no folder'}.")

    def _keep(self) -> None:
        session = self._session
        if session.chat.temporary:
            session.output.error("This chat is temporary: it is not kept.")
            return
        settings = session.chat.settings
        settings.pinned = not settings.pinned
        session.keep_settings()
        pinned = "The chat stays at the top of the list." if settings.pinned else "Unpinned."
        session.output.line(pinned)

    def _export(self, argument: str) -> None:
        from ..history.exports.write_export import parse_export, write_export

        chat = self._session.chat
        if not chat.messages:
            self._session.output.error("There is nothing to export yet.")
            return
        kind, path = parse_export(argument)
        written = write_export(chat, kind, path, Path.cwd())
        self._session.output.line(f"Written to {written}.")

    def _delete(self) -> None:
        session = self._session
        chat, store = session.chat, session.store
        if chat.temporary or not chat.messages or store is None:
            session.output.error("This chat is not kept, so there is nothing to delete.")
            return
        if not session.reader.confirm(f"Delete {chat.title or 'this chat'} for good?"):
            session.output.line("Nothing is deleted.")
            return
        store.delete_chat(chat.id)
        session.chat = Chat()
        if store.flush():
            session.output.line("The chat is deleted. A new one begins.")
        else:
            session.output.error("It is deleted as soon as the history can be written.")

    # All chats

    def _import(self, argument: str) -> None:
        session, store = self._session, self._store()
        if store is None:
            return
        if not argument:
            from ..history.imports.import_file_reader import KNOWN

            session.output.error("Say which file: /import FILE.", KNOWN)
            return

        def progress(report: ImportReport) -> bool:
            read, new = number_format.tokens(report.seen), number_format.tokens(report.messages)
            session.output.news(f"{read} chats read, {new} messages new.")
            return True

        report = store.import_file(Path(argument.strip("\"'")), progress)
        if report.failed:
            session.output.error(report.sentence())
        else:
            session.output.line(report.sentence())

    def _encrypt(self, argument: str) -> None:
        store, output = self._session.store, self._session.output
        if store is None:
            output.error("Chats are not kept here, so there is nothing to encrypt.")
        elif not self._session.reader.is_person:
            output.error("/encrypt needs somebody who types.")
        else:
            from .passphrase_prompt import change_encryption

            change_encryption(store, argument, self._session)

    def _store(self) -> HistoryStore | None:
        """The store, where it can be read."""
        store, output = self._session.store, self._session.output
        if store is None:
            output.error("Chats are not kept here, so there are none to show.")
        elif store.database.is_locked:
            output.error("The chats are locked.", "/encrypt asks for the passphrase.")
            return None
        return store


def _summary(chat: ChatSummary) -> str:
    pinned = "pinned, " if chat.pinned else ""
    folder = f", in {chat.folder}" if chat.folder else ""
    return f"{chat.title}, {pinned}{chat.messages} messages{folder}"


def _hit(hit: SearchHit) -> str:
    if hit.message is None:
        return f"{hit.title}, by its title"
    who = "you" if hit.role == "user" else hit.model or "the model"
    return f"{hit.title}, {who}: {hit.snippet.text}"
