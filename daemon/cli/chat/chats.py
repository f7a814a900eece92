"""`ingle chats`: lists, searches, exports and imports stored chats, without opening one."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...settings.paths import find_paths
from ...terminal.terminal_output import print_json, print_status, print_table, print_text
from ..command_errors import CommandError
from ..command_parser import CommandParser

if TYPE_CHECKING:
    from ingle.tui.history.history_store import HistoryStore
    from ingle.tui.history.imports.import_chats import ImportReport

EXAMPLES = """\
  ingle chats
  ingle chats search kyoto hotel after:2026-01
  ingle chats export 01a1fb1e json trip.json
  ingle chats import ~/Downloads/conversations.json"""
SHOWN = 12
"""Digits of a chat's id that a table shows: enough to identify it."""


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand; raises `CommandError`."""
    parser = CommandParser(
        "chats", "List, search, export and import the stored chats.", examples=EXAMPLES
    )
    parser.add_argument(
        "action", nargs="?", choices=ACTIONS, default="list", metavar="|".join(ACTIONS)
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="search: what to find · export: CHAT [md|json|html] [FILE] · import: FILES",
    )
    parser.add_argument(
        "--limit", type=int, default=50, metavar="N", help="the maximum number of lines (50)"
    )
    options = parser.parse_intermixed_args(arguments)
    with open_chats() as store:
        return ACTIONS[options.action](store, options)


@contextmanager
def open_chats() -> Generator[HistoryStore]:
    """Yield the store of chats, unlocked with a passphrase if it has one; raises `HistoryError`."""
    paths = find_paths(os.environ)
    paths.check_private()
    from ingle.tui.history.history_store import open_history
    from ingle.tui.plain.passphrase_prompt import unlock

    store = open_history(paths.chats, print_status)
    try:
        unlock(store)
        yield store
    finally:
        store.close()


def _list(store: HistoryStore, options: Namespace) -> int:
    chats = store.recent(options.limit)
    if options.json:
        print_json({"chats": chats})
        return 0
    rows = [
        [
            chat.title or "-",
            str(chat.messages),
            chat.model or "-",
            chat.folder or "-",
            _day(chat.changed),
            chat.id[:SHOWN],
        ]
        for chat in chats
    ]
    headers = ("TITLE", "MESSAGES", "MODEL", "FOLDER", "CHANGED", "CHAT")
    print_table(headers, rows, right="MESSAGES")
    return 0


def _search(store: HistoryStore, options: Namespace) -> int:
    hits = store.search(" ".join(options.words), options.limit)
    if options.json:
        print_json({"hits": hits})
        return 0
    if not hits:
        print_status("Nothing found.")
        return 1
    rows = [
        [hit.snippet.text, hit.title, hit.role or "title", _day(hit.created), hit.chat[:SHOWN]]
        for hit in hits
    ]
    print_table(("TEXT", "TITLE", "ROLE", "SAID", "CHAT"), rows)
    return 0


def _export(store: HistoryStore, options: Namespace) -> int:
    words = options.words
    from ingle.tui.history.chat_export import parse_export, write_export

    if not words:
        raise CommandError("Which chat?", "`ingle chats` lists them; the first digits are enough.")
    names = [chat.id for chat in store.recent(1_000_000) if chat.id.startswith(words[0])]
    if len(names) != 1:
        problem = "No chat" if not names else "More than one chat"
        raise CommandError(f"{problem} begins with {words[0]}.", "`ingle chats` lists them.")
    chat = store.load(names[0])
    if chat is None:
        raise CommandError("This chat was deleted a moment ago.")
    kind, path = parse_export(" ".join(words[1:]))
    print_text(str(write_export(chat, kind, path, Path.cwd())))
    return 0


def _import(store: HistoryStore, options: Namespace) -> int:
    if not options.words:
        raise CommandError("Which file?", "`ingle chats import FILE` takes one or more.")
    failed = 0
    for word in options.words:
        report = store.import_file(Path(word), _show_progress)
        print_status(f"{word}: {report.sentence()}")
        failed += report.failed
    return 1 if failed else 0


def _show_progress(report: ImportReport) -> bool:
    if sys.stderr.isatty():
        of = f" of {report.total}" if report.total else ""
        print(f"\rChats read: {report.seen}{of} ", end="", file=sys.stderr, flush=True)
    return True


ACTIONS = {"list": _list, "search": _search, "export": _export, "import": _import}


def _day(stamp: float) -> str:
    try:
        return f"{datetime.fromtimestamp(stamp).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "-"
