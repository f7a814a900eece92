"""`ingle ledger`: shows what left this machine, and verifies the record."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    print_json,
    print_status,
    print_table,
    print_text,
)
from ..command_errors import UsageError
from ..command_parser import CommandParser, run_subcommand
from ..daemon_launcher import running_daemon
from ..server.ps import cost_line

if TYPE_CHECKING:
    from ...client.routing_types import LedgerTotals
    from ...routing.ledger.egress_ledger import Ledger
    from ...routing.ledger.ledger_entries import LedgerEntry

HELP = """\
usage: ingle ledger [--month 2026-11] [--json]
       ingle ledger totals [--month 2026-11] [--json]
       ingle ledger verify [--json]
       ingle ledger forget --before 2026-01

Every request that left this machine, without its content: time, recipient,
bytes and tokens, cost, what was found in it and what was replaced. Each entry
is written before its first byte leaves. One without a receipt says `unknown`:
ingle ended before the answer did.

`verify` reads the whole chain and detects edits, deletions, reordering and a
missing end. It exits with status 1 if it finds any. `forget` erases the months
before one; the chain continues, and records what was erased.

examples:
  ingle ledger
  ingle ledger totals --month 2026-10
  ingle ledger verify
"""

_MONTH = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])")


def main(arguments: Sequence[str]) -> int:
    """List the entries, or run a subcommand; raises `CommandError`."""
    subcommands = {
        "": _list,
        "list": _list,
        "totals": _totals,
        "verify": _verify,
        "forget": _forget,
    }
    return run_subcommand("ledger", HELP, subcommands, arguments)


def _list(arguments: Sequence[str]) -> int:
    ledger, month, as_json = _options("ledger", "List what left this machine.", arguments)
    entries = ledger.entries(month)
    if as_json:
        print_json({"entries": entries})
    elif entries:
        headers = ("TO", "WHEN (UTC)", "VERDICT", "OUT", "IN", "TOKENS", "COST", "OUTCOME")
        print_table(headers, [_row(entry) for entry in entries], right="OUT IN TOKENS COST")
    else:
        print_status(f"Nothing left {'this machine' if month is None else f'in {month}'}.")
    return 0


def _totals(arguments: Sequence[str]) -> int:
    from msgspec.structs import replace

    from ...routing.ledger.ledger_totals import ledger_totals, this_month

    ledger, month, as_json = _options("ledger totals", "Show the totals of a month.", arguments)
    month = month or this_month()
    totals = ledger_totals(month, ledger.entries(month))
    client = running_daemon(load_config(os.environ))
    costs = [] if client is None else client.status().costs
    totals = replace(totals, local=[cost for cost in costs if not cost.remote])
    if as_json:
        print_json(totals)
        return 0
    _print_totals(totals)
    for cost in totals.local:
        print_text(cost_line(cost))
    return 0


def _print_totals(totals: LedgerTotals) -> None:
    if not totals.requests:
        print_status(f"Nothing left in {totals.month}.")
        return
    rows = [
        [
            each.name,
            f"{each.requests:,}",
            format_bytes(each.bytes_out),
            format_bytes(each.bytes_in),
            f"{each.prompt_tokens + each.completion_tokens:,}",
            _cost(each.cost, totals.currency, each.unknown_costs),
            "-" if each.per_million is None else f"{each.per_million:.2f}",
        ]
        for each in totals.providers
    ]
    headers = ("PROVIDER", "REQUESTS", "OUT", "IN", "TOKENS", "COST", "COST/1M")
    print_table(headers, rows, right="REQUESTS OUT IN TOKENS COST COST/1M")
    if totals.unknown_costs:
        print_status(f"Not in the cost: {_requests(totals.unknown_costs)} of unknown cost.")


def _verify(arguments: Sequence[str]) -> int:
    from ...routing.ledger.ledger_verification import verify

    parser = CommandParser("ledger verify", "Check that the ledger is unchanged.")
    options = parser.parse_args(arguments)
    found = verify(_ledger())
    if options.json:
        print_json(found)
        return 0 if found.ok else 1
    for problem in found.problems:
        print(problem)
    for note in found.notes:
        print(f"Note: {note}")
    state = "whole" if found.ok else "not what was written"
    print(f"The chain of {_requests(found.entries)} is {state}.")
    print_status(found.limits)
    return 0 if found.ok else 1


def _forget(arguments: Sequence[str]) -> int:
    parser = CommandParser(
        "ledger forget", "Erase the entries of the months before one.", json=False
    )
    parser.add_argument("--before", required=True, metavar="MONTH", help='such as "2026-01"')
    month = _month(parser.parse_args(arguments).before)
    count = _ledger().forget_before(month)
    print(f"Erased {_requests(count)} from before {month}.")
    return 0


def _options(
    command: str, description: str, arguments: Sequence[str]
) -> tuple[Ledger, str | None, bool]:
    parser = CommandParser(command, description)
    parser.add_argument("--month", metavar="MONTH", help='only this month, such as "2026-11"')
    options = parser.parse_args(arguments)
    month = None if options.month is None else _month(options.month)
    return _ledger(), month, options.json


def _month(text: str) -> str:
    if not _MONTH.fullmatch(text):
        raise UsageError(f"'{text}' is not a month.", 'Write it as "2026-11".')
    return text


def _ledger() -> Ledger:
    from ...routing.ledger.egress_ledger import Ledger

    paths = load_config(os.environ).paths
    return Ledger(paths.ledger, paths.ledger_head)


def _row(entry: LedgerEntry) -> list[str]:
    known = entry.prompt_tokens is not None and entry.completion_tokens is not None
    tokens = (entry.prompt_tokens or 0) + (entry.completion_tokens or 0)
    return [
        "/".join(filter(None, (entry.provider, entry.model))),
        entry.time[:16].replace("T", " "),
        entry.verdict,
        *("?" if n is None else format_bytes(n) for n in (entry.bytes_out, entry.bytes_in)),
        f"{tokens:,}" if known else "?",
        _cost(entry.cost, entry.currency, 0),
        entry.outcome,
    ]


def _requests(count: int) -> str:
    return f"{count:,} request{'s' if count != 1 else ''}"


def _cost(cost: float | None, currency: str, unknown: int) -> str:
    if cost is None:
        return "unknown"
    return f"{'≥ ' if unknown else ''}{cost:.4f} {currency}".rstrip()
