"""`ingle key`: make, list and take back API keys."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..config import load_config
from .errors import CommandError, UsageError
from .output import format_table, print_json, say, table_columns
from .parser import CommandParser

if TYPE_CHECKING:
    from ..keys import KeyRecord, KeyStore

HELP = """\
usage: ingle key new [NAME] [--expires 90d] [--json]
       ingle key list [--json]
       ingle key revoke NAME [NAME ...] [--json]

Keys for clients of the HTTP address. On Linux none is needed: the daemon sees
that a client is yours. Where the system does not tell (macOS, Windows), and for
a client that runs as another user, a key lets it in. Clients send it as
`Authorization: Bearer`, `x-api-key` or `api-key`.

A key is shown once, when it is made; ingle keeps only its digest. What is
changed here counts at once, without a restart of the daemon.

examples:
  ingle key new zed
  ingle key new laptop --expires 90d
  ingle key revoke zed
"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the three; raises `CommandError`."""
    actions: dict[str, Callable[[Sequence[str]], int]] = {
        "new": _new,
        "list": _list,
        "ls": _list,
        "revoke": _revoke,
    }
    action, *rest = arguments or [""]
    if action in {"-h", "--help"}:
        print(HELP, end="")
        return 0
    if action not in actions:
        what = f"There is no `ingle key {action}`." if action else "Say what to do with keys."
        raise UsageError(what, "`ingle key new`, `ingle key list`, `ingle key revoke NAME`.")
    from ..keys import KeyFailure

    try:
        return actions[action](rest)
    except KeyFailure as error:
        raise CommandError(error.message, error.hint) from error


def _new(arguments: Sequence[str]) -> int:
    parser = CommandParser("key new", "Make a key, and print it: it is shown only now.")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="what it is for")
    parser.add_argument(
        "--expires", metavar="TIME", help='how long it is valid, such as "90d"; else for ever'
    )
    parser.add_json()
    options = parser.parse_args(arguments)
    record, key = _store().create(options.name, _lifetime(options.expires))
    if options.json:
        print_json({**_facts(record), "key": key})
        return 0
    until = f"until {_day(record.expires)}" if record.expires else "until it is revoked"
    say(f"The key '{record.name}', valid {until}. It is not shown again:")
    print(key)
    return 0


def _list(arguments: Sequence[str]) -> int:
    parser = CommandParser("key list", "List the keys; what they are is not kept.")
    parser.add_json()
    options = parser.parse_args(arguments)
    store = _store()
    keys, used = store.list(), store.last_used()
    if options.json:
        print_json({"keys": [_facts(key, used.get(key.id)) for key in keys]})
        return 0
    if not keys:
        say("There are no keys. `ingle key new` makes one.")
        return 0
    rows = [_row(key, used.get(key.id)) for key in keys]
    print(format_table(("NAME", "ID", "MADE", "EXPIRES", "USED"), rows, columns=table_columns()))
    return 0


def _revoke(arguments: Sequence[str]) -> int:
    parser = CommandParser("key revoke", "Take keys back: from now on they open nothing.")
    parser.add_argument("keys", nargs="+", metavar="NAME", help="a name or an id of `key list`")
    parser.add_json()
    options = parser.parse_args(arguments)
    store = _store()
    revoked = [store.revoke(reference) for reference in options.keys]
    if options.json:
        print_json({"revoked": [_facts(record) for record in revoked]})
        return 0
    for record in revoked:
        print(f"The key '{record.name}' is revoked.")
    return 0


def _store() -> KeyStore:
    from ..keys import KeyStore

    return KeyStore(load_config(os.environ).paths.keys)


def _lifetime(text: str | None) -> float | None:
    """Seconds, None for ever; raises `UsageError`."""
    if text is None:
        return None
    from ..settings import FOREVER, InvalidSetting, parse_duration

    try:
        seconds = parse_duration(text)
    except InvalidSetting:
        seconds = 0.0
    if seconds == FOREVER:
        return None
    if not 0 < seconds < 10**9:
        raise UsageError(f"'{text}' is not a time that a key can last.", 'Write it as "90d".')
    return seconds


def _facts(record: KeyRecord, used: int | None = None) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "created": _iso(record.created),
        "expires": _iso(record.expires),
        "last_used": _iso(used),
    }


def _row(record: KeyRecord, used: int | None) -> list[str]:
    expires = "never" if record.expires is None else _day(record.expires)
    if record.expired(time.time()):
        expires += " (over)"
    last = "never" if used is None else datetime.fromtimestamp(used).strftime("%Y-%m-%d %H:00")
    return [record.name, record.id, _day(record.created), expires, last]


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d")


def _iso(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
