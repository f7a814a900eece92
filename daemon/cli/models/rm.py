"""`ingle rm`: removes models, and prints what that frees."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import cast
from urllib.parse import quote

from ...client.api_types import Removed
from ...client.sync_client import DaemonClient
from ...settings.config import load_config
from ...terminal.terminal_output import (
    format_bytes,
    print_json,
    print_status,
    strip_control_characters,
)
from ..command_errors import CommandError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon
from ..model_reference import sendable_reference


def main(arguments: Sequence[str]) -> int:
    """Remove each named model; raises `CommandError` at the first that fails."""
    parser = CommandParser(
        "rm",
        "Remove models from this machine. A loaded model is unloaded first, once its\n"
        "answers are finished. Files that another program keeps stay, unless you pass\n"
        "otherwise.",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a name from `ingle list`")
    parser.add_argument(
        "--delete-file",
        action="store_true",
        help="delete the file of a model that another program keeps, too; asks first",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="only show what would be removed"
    )
    parser.add_json()
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    removed: list[Removed] = []
    for model in options.models:
        path = f"/ingle/v1/models/{quote(sendable_reference(model), safe='')}"
        if options.delete_file and not (options.yes or options.dry_run):
            _confirm(_ask_daemon(client, path, dry_run=True, delete_file=True))
        answer = _ask_daemon(client, path, dry_run=options.dry_run, delete_file=options.delete_file)
        removed.append(answer)
        if not options.json:
            print(strip_control_characters(_sentences(answer, dry_run=options.dry_run)))
    if options.json:
        print_json({"removed": removed})
    return 0


def _ask_daemon(client: DaemonClient, path: str, *, dry_run: bool, delete_file: bool) -> Removed:
    chosen = {"dry_run": dry_run, "delete_file": delete_file}
    query = "&".join(f"{name}=true" for name, value in chosen.items() if value)
    # Unloading waits for running answers.
    return cast("Removed", client.delete(f"{path}?{query}" if query else path, timeout=None))


def _sentences(answer: Removed, *, dry_run: bool) -> str:
    name, freed = answer["removed"], answer["freed"]
    room = f"{format_bytes(freed)} {'would be ' if dry_run else ''}freed"
    done = "Would remove" if dry_run else "Removed"
    lines = [f"{done} {name}, {room if freed else 'which frees nothing'}."]
    if answer.get("loaded") and dry_run:
        running = answer.get("running", 0)
        waits = f", once {running} answers are finished" if running else ""
        lines.append(f"It is loaded, and would be unloaded first{waits}.")
    if shared := answer.get("shared_with"):
        lines.append(f"Its file stays, since {', '.join(shared)} uses it, too.")
    lines += [
        f"{path} stays, since {answer.get('place')} uses it." for path in answer.get("keeps", [])
    ]
    if dry_run:
        lines += [f"  {path}" for path in answer.get("files", [])]
    return "\n".join(lines)


def _confirm(plan: Removed) -> None:
    """Ask whether another program's files may be deleted; raises `CommandError` without consent."""
    files = plan.get("files", [])
    if not plan.get("place") or not files:
        return
    print_status(f"This deletes what {plan.get('place')} keeps ({format_bytes(plan['freed'])}):")
    for path in files:
        print_status(f"  {path}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError("Nothing was deleted: there is no terminal to ask at.", "Say --yes.")
    sys.stderr.write("Delete? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("Nothing was deleted.", None)
