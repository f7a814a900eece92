"""Commands of kept chats: search, open, rename, folder, pin, delete, export, import, encrypt."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ..chats.automatic_title import shorten
from ..history.database.history_errors import HistoryError, WrongPassphrase
from ..text import number_format
from ..text.terminal_safe_text import clean
from .chat_session import ChatSession, LineQuestion, keep_settings
from .command_results import CommandRefused, Done, Facts

if TYPE_CHECKING:
    from ..history.history_store import HistoryStore
    from ..history.imports.import_chats import ImportReport

FOLDER_LEGEND = "enter saves · empty: no folder · → completes · esc cancels"
LOCKED = "Until you do, messages are kept in memory only."
LATER = "The chats stay locked, and messages are kept in memory only; /encrypt asks again."
ENCRYPTED = (
    "The chats are encrypted. /encrypt off stores them unencrypted; "
    "/encrypt remember puts the passphrase into the system's keyring."
)


# Finding and opening


async def search(session: ChatSession, text: str) -> Done:
    """Search all chats and open one at the message that was found."""
    store = await readable_store(session)
    hit = await session.front.pick_hit(store, text)
    return Done() if hit is None else await show_chat(session, hit.chat, hit.message)


async def open_(session: ChatSession, text: str) -> Done:
    """Choose from all chats and open one."""
    store = await readable_store(session)
    chosen = await session.front.pick_chat(store, text)
    return Done() if chosen is None else await show_chat(session, chosen, None)


async def show_chat(session: ChatSession, name: str, at: str | None) -> Done:
    """Open the chat of this id, at the message `at` or at its end."""
    shown, store = session.chat, session.store
    if name == shown.id:
        # It may be longer here than it is on the disk.
        message = shown.messages.get(at) if at is not None else None
        if message is not None and message not in shown.path:
            shown.choose(message)
            session.history.choose(shown.id, message.id)
        return Done("", "path", at=at)
    loaded = None if store is None else await asyncio.to_thread(store.load_at, name, at)
    if loaded is None:
        raise CommandRefused("This chat was deleted in another window.")
    session.open_chat(loaded, at=at)
    return Done()


def find(session: ChatSession, text: str) -> Facts:
    """The messages of the open chat that have these words."""
    from ..history.chat_search import SnippetMaker
    from ..history.search_query import parse_query

    terms = parse_query(text).terms
    if not terms:
        raise CommandRefused("Type what to find: /find TEXT.")
    maker = SnippetMaker(terms)
    path = session.chat.path
    rows = [
        (f"Message {place}, {'You' if m.role == 'user' else 'Model'}", maker.make(m.text).text)
        for place, m in enumerate(path, 1)
        if maker.matches_all(m.text)
    ]
    return Facts({f"Found in {len(rows)} of {number_format.counted(len(path), 'message')}": rows})


# One chat


async def rename(session: ChatSession, title: str) -> Done:
    """Give the open chat a title."""
    chat = session.chat
    new = title or await session.front.line(LineQuestion("Title", chat.title))
    if new is None:
        if session.front.is_person:
            return Done()
        raise CommandRefused("Type the title: /rename TITLE.")
    await change_chat(session, chat.id, title=new)
    return Done(f"The chat is renamed to {chat.title}.", "state", is_visible=True)


async def folder(session: ChatSession, name: str) -> Done:
    """Put the open chat into a folder; `off` takes it out."""
    settings = session.chat.settings
    wanted: str | None = "" if name == "off" else name
    if not name:
        names = await _folder_names(session.store)
        note = "In use: " + ", ".join(names) if names else ""
        wanted = await session.front.line(
            LineQuestion("Folder", settings.folder, note, FOLDER_LEGEND, names)
        )
    if wanted is not None:
        await change_chat(session, session.chat.id, folder=wanted)
    place = f"the folder {settings.folder}" if settings.folder else "no folder"
    return Done(f"This chat is in {place}.", "state")


async def _folder_names(store: HistoryStore | None) -> list[str]:
    try:
        return [] if store is None else [n for n, _ in await asyncio.to_thread(store.folders)]
    except HistoryError:  # locked: then there is nothing to complete from
        return []


async def keep(session: ChatSession, _argument: str) -> Done:
    """Keep the open chat at the top of the list, or no longer."""
    chat = session.chat
    if chat.temporary:
        raise CommandRefused("This chat is temporary: it is not saved and cannot be pinned.")
    await change_chat(session, chat.id, pinned=not chat.settings.pinned)
    return Done(
        "The chat stays at the top of the list." if chat.settings.pinned else "Unpinned.", "state"
    )


async def delete(session: ChatSession, _argument: str) -> Done:
    """Delete the open chat for good, after asking."""
    chat = session.chat
    if chat.temporary or not chat.messages or session.store is None:
        raise CommandRefused("This chat is not saved, so there is nothing to delete.")
    return await delete_chat(session, chat.id, chat.title, len(chat.messages))


async def delete_chat(session: ChatSession, chat: str, title: str, messages: int) -> Done:
    """Delete a chat after asking; the open one is replaced by a new one first."""
    from ..chats.chat import Chat

    name = shorten(" ".join(clean(title).split()) or "Untitled", 60)
    what = "1 message" if messages == 1 else f"{messages} messages in all its branches"
    store = session.store
    if store is None or not await session.front.confirm(
        f"Delete “{name}”?",
        f"It has {what}. This cannot be undone.",
        yes="deletes it permanently",
        no="keeps it",
    ):
        return Done("Nothing is deleted.", is_visible=True)
    if chat == session.chat.id:
        session.open_chat(Chat())
    store.delete_chat(chat)
    if session.folders is not None:
        shutil.rmtree(session.folders.edits(chat), ignore_errors=True)
    if await asyncio.to_thread(store.flush):
        return Done("The chat is deleted.")
    return Done(
        "The history cannot be written now; the chat is deleted as soon as it can.", is_warning=True
    )


async def change_chat(session: ChatSession, chat: str, **changes: str | bool) -> None:
    """Change settings (title, folder, pinned) of the open chat or another; raises `HistoryError`.

    An empty title is made from the first words of the chat again.
    """
    shown, store = session.chat, session.store
    if chat == shown.id:
        settings = shown.settings
    elif store is not None:
        settings = await asyncio.to_thread(store.settings, chat)
    else:
        return
    for name, value in changes.items():
        setattr(settings, name, " ".join(value.split()) if isinstance(value, str) else value)
    if chat == shown.id:
        keep_settings(session)
    elif store is not None:
        store.set_settings(chat, settings)


async def export(session: ChatSession, argument: str) -> Done:
    """Write the open chat to a file: `md`, `json` or `html`, and where."""
    from ..history.chat_export import parse_export, write_export

    chat = session.chat
    if not chat.messages:
        raise CommandRefused("There is nothing to export yet.")
    kind, path = parse_export(argument)
    written = await asyncio.to_thread(write_export, chat.copy(), kind, path, Path.cwd())
    return Done(f"Written to {written}.")


async def share(session: ChatSession, path: str) -> Done:
    """Write the open chat to a page that needs nothing else, to be passed on."""
    done = await export(session, f"html {path}")
    return Done(f"{done.sentence} It has the system prompt, the files and all that is shown here.")


# All chats


async def import_(session: ChatSession, argument: str) -> Done:
    """Import the chats in a file of another program."""
    from ..history.imports.import_chats import KNOWN

    store = await readable_store(session)
    question = LineQuestion("Import chats", "", KNOWN, "enter imports this file  ·  esc cancels")
    name = argument or await session.front.line(question)
    if not name:
        if session.front.is_person:
            return Done()
        raise CommandRefused("Name the file: /import FILE.", KNOWN)
    path = Path(name.strip("\"'"))
    is_cancelled = False

    def report_progress(report: ImportReport) -> bool:
        of = f" of {number_format.tokens(report.total)}" if report.total else ""
        read = f"{number_format.tokens(report.seen)}{of}"
        new = number_format.counted(report.messages, "new message")
        running.report(f"Chats read: {read}; {new}")
        return not is_cancelled and not running.is_cancelled

    with session.front.long_task(
        f"Importing {path.name}", "esc stops; what is imported stays"
    ) as running:
        try:
            report = await asyncio.to_thread(store.import_file, path, report_progress)
        except asyncio.CancelledError:
            is_cancelled = True  # the thread stops with its next chat
            raise
    if report.failed:
        raise CommandRefused(report.sentence())
    return Done(
        f"{report.sentence()} /open lists the chats." if report.chats else report.sentence()
    )


async def encrypt(session: ChatSession, argument: str) -> Done:
    """Encrypt the chats with a passphrase, unlock them, or with `off` decrypt them."""
    store = session.store
    if store is None:
        raise CommandRefused("Chats are not saved here, so there is nothing to encrypt.")
    if not session.front.is_person:
        raise CommandRefused("/encrypt needs a terminal to type the passphrase in.")
    if store.database.is_locked:
        await unlock(session)
        return Done("The chats are unlocked.", "state", is_visible=True)
    if not store.database.is_encrypted:
        return await _encrypt(session, store)
    if argument == "off":
        return await _decrypt(session, store)
    if argument in ("remember", "forget"):
        remembers = argument == "remember"
        await asyncio.to_thread(store.remember, remembers)
        done = "unlocks the chats from now on" if remembers else "has forgotten the passphrase"
        return Done(f"The system's keyring {done}.")
    return Done(ENCRYPTED)


async def _encrypt(session: ChatSession, store: HistoryStore) -> Done:
    from ..history.database.database_encryption import (
        NO_WAY_BACK,
        load_sqlcipher,
        passphrase_problem,
    )

    await asyncio.to_thread(load_sqlcipher)
    question = LineQuestion(
        "New passphrase", note=NO_WAY_BACK, legend="enter continues  ·  esc cancels", is_secret=True
    )
    first = await session.front.line(question)
    if first is None:
        return Done("Nothing changed.", is_visible=True)
    problem = passphrase_problem(first)
    if problem is None:
        again = LineQuestion(
            "Repeat the passphrase", legend="enter encrypts  ·  esc cancels", is_secret=True
        )
        second = await session.front.line(again)
        if second is None:
            return Done("Nothing changed.", is_visible=True)
        problem = None if second == first else "The two passphrases differ."
    if problem is not None:
        raise CommandRefused(problem, "Nothing changed.")
    session.front.progress("Encrypting the chats…")
    await asyncio.to_thread(store.encrypt, first)
    done = "The chats are encrypted. The next start asks for the passphrase."
    left = await asyncio.to_thread(store.database.unencrypted_leftovers)
    if left:
        done += f" Backups from before, still unencrypted: {', '.join(left)}."
    return Done(done, "state", is_warning=bool(left))


async def _decrypt(session: ChatSession, store: HistoryStore) -> Done:
    if not await session.front.confirm(
        "Store the chats unencrypted?",
        "Then every program that can read your files can read them.",
        yes="decrypts them",
    ):
        return Done("The chats stay encrypted.", is_visible=True)
    await asyncio.to_thread(store.decrypt)
    return Done("The chats are stored unencrypted again.", "state")


async def unlock(session: ChatSession) -> None:
    """Ask for the passphrase until it is right; raises `CommandRefused` if none is given."""
    store, complaint = session.store, ""
    while store is not None and store.database.is_locked:
        question = LineQuestion(
            "Passphrase of your chats",
            note=complaint or LOCKED,
            legend="enter unlocks  ·  esc later",
            is_secret=True,
        )
        passphrase = await session.front.line(question)
        if not passphrase:
            raise CommandRefused(LATER)
        try:
            await asyncio.to_thread(store.unlock, passphrase)
        except WrongPassphrase as error:
            complaint = f"{error.message} {error.hint}"
    session.front.history_unlocked()


async def readable_store(session: ChatSession) -> HistoryStore:
    """The history, unlocked if needed; raises `CommandRefused`."""
    store = session.store
    if store is None:
        raise CommandRefused("Chats are not saved here, so there are none to show.")
    if store.database.is_locked:
        if not session.front.is_person:
            raise CommandRefused("The chats are locked.", "/encrypt asks for the passphrase.")
        await unlock(session)
    return store
