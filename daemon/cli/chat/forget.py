"""`ingle forget`: lists the data stored on this machine, and erases it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ...settings.config import load_config
from ..command_errors import UsageError
from ..command_parser import CommandParser

EXAMPLES = """\
  ingle forget --list                   what is stored, where, and for how long
  ingle forget chat 01a1fb1e            one chat; `ingle chats` lists them
  ingle forget chat resp_58c1…          a conversation of /v1/responses
  ingle forget --since 2h               everything used in the last two hours
  ingle forget --before 2026-01-31      everything last used before that day
  ingle forget --all --dry-run          what would be erased
  ingle forget --all --place kv         only stored KV caches"""


def main(arguments: Sequence[str]) -> int:
    """List or erase; raises `CommandError`."""
    options = _parser().parse_intermixed_args(arguments)
    config = load_config(os.environ)
    config.paths.check_private()
    from .forget_workflow import forget, list_places

    if options.list:
        return list_places(config, as_json=options.json)
    if options.what not in (None, "chat"):
        raise UsageError(
            f"Before {options.what!r} the word `chat` is missing.",
            f"`ingle forget chat {options.what}`; `ingle chats` lists them.",
        )
    if bool(options.ids) != (options.what == "chat"):
        raise UsageError("Which chat?", "`ingle forget chat ID`; `ingle chats` lists them.")
    return forget(config, options)


def _parser() -> CommandParser:
    parser = CommandParser(
        "forget",
        "Erase stored chats and their traces: one chat, by time, or all. Settings, keys,\n"
        "models and measurements contain no text of people, and are kept.",
        examples=EXAMPLES,
    )
    parser.add_argument("what", nargs="?", metavar="chat", help="what the IDs name")
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="ID",
        help="a chat's first digits, or resp_…, conv_…, chatcmpl-…, file-…, batch_…",
    )
    parser.add_flag("--list", help="list what is stored; erase nothing")
    parser.add_flag("--all", help="everything that contains text of people")
    parser.add_argument(
        "--since", metavar="TIME", help='used since then: "2h" (ago), a day, 2026-01-31T18:00'
    )
    parser.add_argument("--before", metavar="TIME", help="last used before then")
    parser.add_argument(
        "--place", action="append", default=[], metavar="PLACE", help="only this place of --list"
    )
    parser.add_flag("--dry-run", help="show what would be erased; erase nothing")
    parser.add_flag("-y", "--yes", help="do not ask for confirmation")
    return parser
