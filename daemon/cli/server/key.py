"""`ingle key`: creates, lists, rotates and revokes API keys."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...settings.config import load_config
from ...terminal.terminal_output import print_json, print_status, print_table, print_text
from ..command_errors import UsageError
from ..command_parser import CommandParser, run_subcommand

if TYPE_CHECKING:
    from argparse import Namespace

    from ...access.api_keys import KeyRecord, KeyStore, RequestRate
    from ...http.route_access import Scope

HELP = """\
usage: ingle key new [NAME] [--scope inference,read] [--model 'smollm2*']
                     [--route local] [--rate 60/m] [--expires 90d] [--json]
       ingle key list [--json]
       ingle key rotate NAME [--expires 90d] [--json]
       ingle key revoke NAME [NAME ...] [--json]

Keys for clients of the HTTP address. On Linux none is needed: the daemon can
see that a client is yours. If the system does not report that (Windows), for a
client that runs as another user, and for other machines, a key is needed.
Clients send it as `Authorization: Bearer`, `x-api-key` or `api-key`.

A key is shown once, when it is created; ingle stores only its digest. Changes
take effect at once, without a restart of the daemon.

scopes (default: all):
  inference  use models          models  load, pull and remove models
  read       see the status      files   files and batches
  admin      everything

examples:
  ingle key new zed
  ingle key new laptop --scope inference --model 'qwen*' --expires 90d
  ingle key rotate laptop
  ingle key revoke zed
"""


def main(arguments: Sequence[str]) -> int:
    """Run one of the four subcommands; raises `CommandError`."""
    subcommands = {
        "new": _new,
        "list": _list,
        "ls": _list,
        "rotate": _rotate,
        "revoke": _revoke,
    }
    return run_subcommand("key", HELP, subcommands, arguments)


def _new(arguments: Sequence[str]) -> int:
    parser = CommandParser("key new", "Create a key, and print it: it is shown only now.")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="a name for the key")
    parser.add_argument(
        "--scope",
        action="append",
        metavar="SCOPE",
        help="what it allows: inference, read, models, files, admin; default: all",
    )
    parser.add_argument(
        "--model", action="append", metavar="PATTERN", help="only for models with these full names"
    )
    parser.add_argument(
        "--route", choices=("any", "local"), default="any", help="local: never for a cloud"
    )
    parser.add_argument("--rate", metavar="N/UNIT", help='requests in a time, such as "60/m"')
    parser.add_argument(
        "--expires", metavar="TIME", help='how long it is valid, such as "90d"; default: for ever'
    )
    options = parser.parse_args(arguments)
    from ...access.api_keys import KeyLimitation

    limitation = KeyLimitation(
        scopes=_scopes(options.scope),
        models=_words(options.model),
        route=options.route,
        rate=_rate(options.rate),
    )
    return _show_new(
        *_store().create(options.name, _lifetime(options.expires), limitation), options
    )


def _rotate(arguments: Sequence[str]) -> int:
    parser = CommandParser("key rotate", "Replace a key with a new one; the old one is revoked.")
    parser.add_argument("name", metavar="NAME", help="a name or an id of `key list`")
    parser.add_argument("--expires", metavar="TIME", help="how long the new one is valid")
    options = parser.parse_args(arguments)
    return _show_new(*_store().rotate(options.name, _lifetime(options.expires)), options)


def _show_new(record: KeyRecord, key: str, options: Namespace) -> int:
    if options.json:
        print_json({**_facts(record), "key": key})
    else:
        until = f"until {_day(record.expires)}" if record.expires else "until it is revoked"
        print_status(f"The key '{record.name}', valid {until}. It is not shown again:")
        print(key)
    return 0


def _list(arguments: Sequence[str]) -> int:
    parser = CommandParser("key list", "List the keys; the keys themselves are not stored.")
    options = parser.parse_args(arguments)
    store = _store()
    keys, used = store.list(), store.last_used()
    if options.json:
        print_json({"keys": [_facts(key, used.get(key.id)) for key in keys]})
    elif keys:
        rows = [_row(key, used.get(key.id)) for key in keys]
        print_table(("NAME", "ID", "FOR", "EXPIRES", "USED"), rows)
    else:
        print_status("There are no keys. `ingle key new` creates one.")
    return 0


def _revoke(arguments: Sequence[str]) -> int:
    parser = CommandParser("key revoke", "Revoke keys, which takes effect at once.")
    parser.add_argument("keys", nargs="+", metavar="NAME", help="a name or an id of `key list`")
    options = parser.parse_args(arguments)
    store = _store()
    revoked = [store.revoke(reference) for reference in options.keys]
    if options.json:
        print_json({"revoked": [_facts(record) for record in revoked]})
    else:
        for record in revoked:
            print_text(f"The key '{record.name}' is revoked.")
    return 0


def _store() -> KeyStore:
    from ...access.api_keys import KeyStore

    return KeyStore(load_config(os.environ).paths.keys)


def _lifetime(text: str | None) -> float | None:
    """Return seconds, None for ever; raises `UsageError`."""
    if text is None:
        return None
    from ...settings.setting_parsers import FOREVER, InvalidSetting, parse_duration

    try:
        seconds = parse_duration(text)
    except InvalidSetting:
        seconds = 0.0
    if seconds == FOREVER:
        return None
    if not 0 < seconds < 10**9:
        raise UsageError(f"'{text}' is not a valid lifetime of a key.", 'Write it as "90d".')
    return seconds


def _words(given: Sequence[str] | None) -> tuple[str, ...]:
    """Split the values of an option that may be repeated, or separated by commas."""
    parts = (part.strip() for text in given or () for part in text.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))


def _scopes(given: Sequence[str] | None) -> tuple[Scope, ...]:
    """Return those scopes, else all; raises `UsageError`."""
    from ...http.route_access import Scope

    words = _words(given)
    if unknown := [word for word in words if word not in tuple(Scope)]:
        raise UsageError(f"There is no scope '{unknown[0]}'.", f"Scopes: {', '.join(Scope)}.")
    return tuple(Scope(word) for word in words) or tuple(Scope)


def _rate(text: str | None) -> RequestRate | None:
    """Return the rate of "60/m"; raises `UsageError`."""
    from ...access.api_keys import RequestRate

    if text is None:
        return None
    try:
        return RequestRate.parse(text)
    except ValueError as error:
        hint = 'Write it as "5/s", "60/m" or "500/h".'
        raise UsageError(f"'{text}' is not a rate.", hint) from error


def _facts(record: KeyRecord, used: int | None = None) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "created": _iso(record.created),
        "expires": _iso(record.expires),
        "last_used": _iso(used),
        "scopes": list(record.scopes),
        "models": list(record.models),
        "route": record.route,
        "rate": record.rate.short if record.rate is not None else None,
    }


def _row(record: KeyRecord, used: int | None) -> list[str]:
    expires = "never" if record.expires is None else _day(record.expires)
    if record.expired(time.time()):
        expires += " (over)"
    last = "never" if used is None else datetime.fromtimestamp(used).strftime("%Y-%m-%d %H:00")
    return [record.name, record.id, _purpose(record), expires, last]


def _purpose(record: KeyRecord) -> str:
    """Return a short description of its limitations."""
    from ...http.route_access import Scope

    everything = Scope.ADMIN in record.scopes
    parts = ["all" if everything else "+".join(record.scopes), *record.models]
    parts += ["local"] if record.route == "local" else []
    return " ".join([*parts, record.rate.short] if record.rate is not None else parts)


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d")


def _iso(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
