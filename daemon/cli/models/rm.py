"""`ingle rm`: removes models, and prints what that frees."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from ...settings.config import load_config
from ...terminal.terminal_output import (
    confirmed,
    counted,
    format_bytes,
    print_json,
    print_status,
    print_text,
)
from ..command_errors import CommandError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference

if TYPE_CHECKING:
    from ...client.model_types import Removed
    from ...client.sync_client import DaemonClient


def main(arguments: Sequence[str]) -> int:
    """Remove each named model; raises `CommandError` at the first that fails."""
    parser = CommandParser(
        "rm",
        "Remove models from this machine; in a terminal, asks first. A loaded model is\n"
        "unloaded first, once its answers are finished. Files that another program\n"
        "keeps stay without --delete-file.",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a name from `ingle list`")
    parser.add_flag(
        "--delete-file",
        help="delete the file of a model that another program keeps, too; always asks",
    )
    parser.add_flag("-y", "--yes", help="do not ask for confirmation")
    parser.add_flag("-n", "--dry-run", help="only show what would be removed")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    removed: list[Removed] = []
    for model in options.models:
        path = f"/ingle/v1/models/{quote(sendable_reference(model), safe='')}"
        if not (options.yes or options.dry_run) and (options.delete_file or _on_terminal()):
            _confirm(_remove(client, path, dry_run=True, delete_file=options.delete_file))
        answer = _remove(client, path, dry_run=options.dry_run, delete_file=options.delete_file)
        removed.append(answer)
        if not options.json:
            print_text(_sentences(answer, dry_run=options.dry_run))
    if options.json:
        print_json({"removed": removed})
    return 0


def _remove(client: DaemonClient, path: str, *, dry_run: bool, delete_file: bool) -> Removed:
    from ...client.model_types import Removed

    chosen = {"dry_run": dry_run, "delete_file": delete_file}
    query = "&".join(f"{name}=true" for name, value in chosen.items() if value)
    # Unloading waits for running answers.
    return client.delete(f"{path}?{query}" if query else path, Removed, timeout=None)


def _sentences(answer: Removed, *, dry_run: bool) -> str:
    freed = f"{format_bytes(answer.freed)} {'would be ' if dry_run else ''}freed"
    done = "Would remove" if dry_run else "Removed"
    lines = [f"{done} {answer.removed}, {freed if answer.freed else 'which frees nothing'}."]
    if answer.loaded and dry_run:
        waits = f", after {counted(answer.running, 'more answer')}" if answer.running else ""
        lines.append(f"It is loaded, and would be unloaded first{waits}.")
    if answer.shared_with:
        others = answer.shared_with
        use = "uses" if len(others) == 1 else "use"
        lines.append(f"Its file stays, since {' and '.join(others)} {use} it, too.")
    lines += [f"{path} stays, since {answer.place} uses it." for path in answer.keeps]
    if dry_run:
        lines += [f"  {path}" for path in answer.files]
    return "\n".join(lines)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _confirm(plan: Removed) -> None:
    """Ask whether to remove a model, or another program's files; raises `CommandError` without
    consent.
    """
    theirs = bool(plan.place and plan.files)
    if theirs:
        print_status(f"This deletes what {plan.place} keeps ({format_bytes(plan.freed)}):")
        for path in plan.files:
            print_status(f"  {path}")
    if not _on_terminal():
        if not theirs:
            return
        raise CommandError("Nothing was deleted: there is no terminal to ask at.", "Say --yes.")
    freed = f" ({format_bytes(plan.freed)})" if plan.freed else ""
    if not confirmed("Delete?" if theirs else f"Remove {plan.removed}{freed}?"):
        raise CommandError("Nothing was deleted." if theirs else "Nothing was removed.")
