"""`ingle chats`: lists, searches, exports and imports stored chats, without opening one."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...settings.paths import find_paths
from ...terminal.terminal_output import (
    format_table,
    print_json,
    print_status,
    strip_control_characters,
    table_columns,
)
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
DEEDS = ("list", "search", "export", "import")
SHOWN = 12
"""Digits of a chat's id that a table shows: enough to identify it."""


def main(arguments: Sequence[str]) -> int:
    """Run the subcommand; raises `CommandError`."""
    parser = CommandParser(
        "chats", "List, search, export and import the stored chats.", examples=EXAMPLES
    )
    parser.add_argument("deed", nargs="?", choices=DEEDS, default="list", metavar="|".join(DEEDS))
    parser.add_argument(
        "words",
        nargs="*",
        metavar="WORD",
        help="search: what to find · export: CHAT [md|json|html] [FILE] · import: FILES",
    )
    parser.add_argument("--limit", type=int, default=50, help="the maximum number of lines (50)")
    parser.add_json()
    options = parser.parse_intermixed_args(arguments)
    paths = find_paths(os.environ)
    paths.check_private()
    from ingle.tui.history.database.history_errors import HistoryError
    from ingle.tui.history.history_store import open_history
    from ingle.tui.plain.passphrase_prompt import unlock

    store = open_history(paths.chats, print_status)
    try:
        unlock(store)
        return _do(store, options)
    except HistoryError as error:
        raise CommandError(error.message, error.hint) from error
    finally:
        store.close()


def _do(store: HistoryStore, options: Namespace) -> int:
    if options.deed == "search":
        return _search(store, " ".join(options.words), options)
    if options.deed == "export":
        return _export(store, options.words)
    if options.deed == "import":
        return _import(store, options.words)
    return _list(store, options)


def _list(store: HistoryStore, options: Namespace) -> int:
    chats = store.recent(options.limit)
    if options.json:
        import msgspec

        print_json({"chats": msgspec.to_builtins(chats)})
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
    print(format_table(headers, rows, right="MESSAGES", columns=table_columns()))
    return 0


def _search(store: HistoryStore, text: str, options: Namespace) -> int:
    hits = store.search(text, options.limit)
    if options.json:
        import msgspec

        print_json({"hits": msgspec.to_builtins(hits)})
        return 0
    rows = [
        [hit.snippet.text, hit.title, hit.role or "title", _day(hit.created), hit.chat[:SHOWN]]
        for hit in hits
    ]
    if rows:
        headers = ("TEXT", "TITLE", "ROLE", "SAID", "CHAT")
        print(format_table(headers, rows, columns=table_columns()))
    else:
        print_status("Nothing found.")
    return 0 if rows else 1


def _export(store: HistoryStore, words: Sequence[str]) -> int:
    from ingle.tui.history.exports.write_export import parse_export, write_export

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
    print(strip_control_characters(str(write_export(chat, kind, path, Path.cwd()))))
    return 0


def _import(store: HistoryStore, words: Sequence[str]) -> int:
    if not words:
        raise CommandError("Which file?", "`ingle chats import FILE` takes one or more.")
    failed = 0
    for word in words:
        report = store.import_file(Path(word), _tell)
        print_status(f"{word}: {report.sentence()}")
        failed += report.failed
    return 1 if failed else 0


def _tell(report: ImportReport) -> bool:
    if sys.stderr.isatty():
        of = f" of {report.total}" if report.total else ""
        print(f"\r{report.seen}{of} chats read ", end="", file=sys.stderr, flush=True)
    return True


def _day(stamp: float) -> str:
    try:
        return f"{datetime.fromtimestamp(stamp).astimezone():%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "-"
