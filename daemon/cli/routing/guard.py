"""`ingle guard`: starts a cloud agent whose requests are judged and masked before they leave."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from argparse import REMAINDER, Namespace
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

from ...settings.config import load_config
from ...terminal.terminal_output import counted, format_bytes, print_json, print_status
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser

if TYPE_CHECKING:
    from ...client.guard_types import GuardSummary
    from ...client.sync_client import DaemonClient

EXAMPLES = """\
  ingle guard claude                     Claude Code, with its own login
  ingle guard codex                      Codex, with its own login
  ingle guard --strict claude -p "Fix the test"
  ingle guard --local qwen2.5-coder codex
  ingle guard -- aider --model sonnet    any program that reads the variable
                                         ANTHROPIC_BASE_URL or OPENAI_BASE_URL
"""


def main(arguments: Sequence[str]) -> int:
    """Run a guarded program, and return its exit status; raises `CommandError`."""
    from .guarded_programs import KNOWN, guarded, upstreams

    options = _parser().parse_args(arguments)
    command: list[str] = options.command
    if command[:1] == ["--"]:
        command = command[1:]
    elif command and command[0] not in KNOWN:
        raise UsageError(
            f"ingle does not know how to guard '{command[0]}'.",
            f"It knows {', '.join(KNOWN)}. `ingle guard -- {command[0]}` starts it with "
            "ANTHROPIC_BASE_URL and OPENAI_BASE_URL.",
        )
    if not command:
        raise UsageError(
            "No program was named.", f"Name one after the options: {', '.join(KNOWN)}."
        )
    if shutil.which(command[0]) is None:
        raise CommandError(f"There is no program '{command[0]}'.", "Install it, or name its path.")

    from ...client.guard_types import GuardRequest, GuardStarted
    from ...client.guard_types import GuardSummary as Summary
    from ..daemon_launcher import ensure_daemon

    daemon = ensure_daemon(load_config(os.environ))
    address = _address(daemon)
    wanted = GuardRequest(
        upstreams=upstreams(os.environ),
        strict=options.strict,
        local=options.local or "",
        pid=os.getpid(),
    )
    path = daemon.post("/ingle/v1/guard", wanted, GuardStarted).path
    try:
        line, variables = guarded(command, f"http://{address}{path}", os.environ)
        status = _run(line, variables)
    finally:
        summary = daemon.delete(f"/ingle/v1{path}", Summary)
    _report(command[0], summary, options)
    return status


def _parser() -> CommandParser:
    parser = CommandParser(
        "guard",
        "Start a cloud agent with its own login, and judge what it sends: values that\n"
        "the policy keeps here are replaced by placeholders, and restored in the\n"
        "answers. What cannot be masked is refused; the ledger has all that left.",
        examples=EXAMPLES,
    )
    parser.add_flag("--strict", help="refuse what the policy never lets out, also masked")
    parser.add_argument("--local", metavar="MODEL", help="answer here what would be refused")
    parser.add_argument(
        "command", nargs=REMAINDER, metavar="PROGRAM", help="the program, and its arguments"
    )
    return parser


def _address(daemon: DaemonClient) -> str:
    address = daemon.status().address
    if address is None:
        raise CommandError(
            "The daemon listens on its unix socket only, which no agent can use.",
            "Set `port` in config.toml, and run `ingle stop`.",
        )
    return address


def _run(line: Sequence[str], variables: dict[str, str]) -> int:
    # A terminal's Ctrl-C is for the program; a handler, unlike "ignore", is not inherited.
    before = signal.signal(signal.SIGINT, _leave_to_program)
    try:
        status = subprocess.call(line, env={**os.environ, **variables})
    except OSError as error:
        raise CommandError(f"'{line[0]}' cannot be started: {error.strerror}.") from error
    finally:
        signal.signal(signal.SIGINT, before)
    return status if status >= 0 else 128 - status


def _leave_to_program(number: int, frame: FrameType | None) -> None:
    return


def _report(name: str, summary: GuardSummary, options: Namespace) -> None:
    if options.json:
        print_json(summary)
        return
    if not summary.sent + summary.refused + summary.answered_here:
        print_status(
            f"Warning: no request came through the guard. If '{name}' sent any, they went "
            "elsewhere, unjudged."
        )
        return
    masked = ", ".join(kind.replace("_", " ") for kind in summary.masked)
    print_status(
        f"Guarded: {counted(summary.sent, 'request')} left ({format_bytes(summary.bytes_out)}), "
        f"{summary.redacted} of them masked{f' ({masked})' if masked else ''}; "
        f"{summary.refused} refused, {summary.answered_here} answered here. "
        "`ingle ledger` lists what left."
    )
    for reason in dict.fromkeys(summary.reasons):
        print_status(f"Refused: {reason}")
