"""`ingle route`: shows what may leave this machine, and why a text may or may not."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from ...settings.config import Config, load_config
from ...terminal.terminal_output import (
    format_table,
    print_json,
    print_status,
    print_table,
    print_text,
    text_columns,
)
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser, given, run_subcommand
from ..daemon_launcher import ensure_daemon

if TYPE_CHECKING:
    from ...client.routing_types import ExplainedFinding, Explanation, RoutingState

HELP = """\
usage: ingle route [--json]                     what is in force
       ingle route explain TEXT|- [--file FILE] [--model ROUTE] [--json]
       ingle route check [FILE]                 validate a policy
       ingle route new [--yes]                  write a policy to start from
       ingle route schema                       its JSON Schema, for editors

With the model name `auto` the policy decides where a request is answered: here,
or by the best model of a provider that you set up (`ingle provider`). Without a
provider everything is answered here. docs/privacy.md says what counts as
sensitive, and how to change that.

examples:
  ingle route explain "Write to anna@example.org that I am ill"
  git diff | ingle route explain -
  ingle run auto "Why is the sky blue?"
"""
_VERDICTS = {
    "local": "it stays on this machine.",
    "redact": "it may leave with placeholders.",
    "ask": "it may leave with your consent.",
    "cloud": "it may leave this machine.",
}
_OWN_WORD_QUESTIONS = (
    "Your names and nicknames",
    "Family and friends",
    "Your employer",
    "Clients and partners",
    "Your street and town",
    "Projects and their code names",
)
_SHOWN_FINDINGS = 40
_SHOWN_CHARACTERS = 40


def main(arguments: Sequence[str]) -> int:
    """Run one of the five subcommands; raises `CommandError`."""
    subcommands = {
        "": _show,
        "explain": _explain,
        "check": _check,
        "new": _new,
        "schema": _schema,
    }
    return run_subcommand("route", HELP, subcommands, arguments)


def _show(arguments: Sequence[str]) -> int:
    parser = CommandParser("route", "Show the policy, the routes and the providers in force.")
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    from ...client.routing_types import RoutingState

    state = client.get("/ingle/v1/routing", RoutingState)
    if options.json:
        print_json(state)
    else:
        _print_state(state)
    return 0


def _print_state(state: RoutingState) -> None:
    """Print whether anything may leave, the routes, and the providers."""
    origin = "your policy"
    if not state.policy_exists:
        origin = "the default one; `ingle route new` writes one"
    if state.policy_trouble:
        line = f"Nothing leaves this machine: {state.policy_trouble}"
    elif state.offline:
        line = "Nothing leaves this machine: ingle is offline."
    elif not state.enabled:
        line = "Nothing leaves this machine: no provider is set up. `ingle provider` does that."
    else:
        line = "What the policy allows may leave this machine; `ingle ledger` lists what did."
    print_text(f"{line}\npolicy: {state.policy} ({origin})\n")
    rows = [
        [each.name, each.local, each.remote or "-", each.prefer, ", ".join(each.escalate) or "-"]
        for each in state.routes
    ]
    print_table(("ROUTE", "HERE", "ELSEWHERE", "PREFERS", "ESCALATES"), rows)
    if state.providers:
        print()
        rows = [
            [each.name, each.kind, ", ".join(each.models) or "-", each.trouble or "ready"]
            for each in state.providers
        ]
        print_table(("PROVIDER", "KIND", "MODELS", "STATE"), rows)


def _explain(arguments: Sequence[str]) -> int:
    options = _explain_parser().parse_args(arguments)
    text = _text(options)
    client = ensure_daemon(load_config(os.environ))
    from ...client.routing_types import Explanation

    body = {"text": text, **given(options, "model", "private", "override")}
    explanation = client.post("/ingle/v1/routing/explain", body, Explanation, timeout=120.0)
    if options.json:
        print_json(explanation)
    else:
        _print_explanation(explanation, text)
    return 0


def _explain_parser() -> CommandParser:
    parser = CommandParser(
        "route explain",
        "Show what is sensitive in a text, and where it would be answered. The text\n"
        "stays on this machine, and is not stored.",
    )
    parser.add_argument("text", nargs="*", metavar="TEXT", help="- for standard input")
    parser.add_argument("--file", metavar="FILE", help="read the text from this file")
    parser.add_argument("--model", default="auto", metavar="ROUTE", help="(auto)")
    parser.add_flag("--private", help="as a private request")
    parser.add_argument(
        "--override",
        choices=("never",),
        help="with --json, assume consent although there is something that never leaves",
    )
    return parser


def _text(options: Namespace) -> str:
    words = " ".join(options.text)
    if bool(options.file) == bool(options.text):
        raise UsageError("Give either a text or --file.", '`ingle route explain "TEXT"`')
    try:
        if options.file:
            return Path(options.file).read_bytes().decode()
        # Shells pass bytes that are not UTF-8 on as surrogates.
        return sys.stdin.buffer.read().decode() if words == "-" else os.fsencode(words).decode()
    except UnicodeDecodeError:
        raise CommandError("That is not text in UTF-8.", "Only text can be scanned.") from None
    except OSError as error:
        raise CommandError(f"{options.file} cannot be read: {error.strerror}.") from error


def _print_explanation(explained: Explanation, text: str) -> None:
    where = "on this machine" if explained.goes_to == "local" else f"by {explained.goes_to}"
    meaning = _VERDICTS.get(explained.verdict, "see docs/privacy.md.")
    print_text(f"{explained.verdict}: {meaning} It would be answered {where}.")
    columns = min(text_columns(), 100)
    print_text(fill(explained.reason, columns, break_on_hyphens=False))
    print_text(f"rule: {explained.rule}")
    findings = explained.findings
    if findings:
        print()
        rows = [
            [
                each.kind,
                each.sensitivity,
                _excerpt(text, each),
                f"{each.start}-{each.end}",
                each.detector,
            ]
            for each in findings[:_SHOWN_FINDINGS]
        ]
        print(format_table(("KIND", "CLASS", "TEXT", "PLACE", "BY"), rows))
        if len(findings) > _SHOWN_FINDINGS:
            print(f"and {len(findings) - _SHOWN_FINDINGS} more; --json lists all.")
    for redacted in explained.redacted:
        print_text(f"\nWith placeholders it would be:\n{redacted.text}")


def _excerpt(text: str, finding: ExplainedFinding) -> str:
    found = " ".join(text[finding.start : finding.end].split())
    return found if len(found) <= _SHOWN_CHARACTERS else f"{found[: _SHOWN_CHARACTERS - 1]}…"


def _check(arguments: Sequence[str]) -> int:
    parser = CommandParser("route check", "Validate a policy, and show its errors.")
    parser.add_argument("file", nargs="?", metavar="FILE", help="(the policy in force)")
    options = parser.parse_args(arguments)
    from ...routing.policy.policy_file import load_policy
    from ...routing.policy.sensitivity_classes import DEFAULT_CLASSES

    path = Path(options.file) if options.file else _policy_path(load_config(os.environ))
    if options.file and not path.exists():
        raise CommandError(f"There is no file {path}.", "`ingle route new` writes one.")
    policy = load_policy(path)
    changed = {k: c.value for k, c in policy.classes.items() if c is not DEFAULT_CLASSES[k]}
    loosened = [k for k in changed if DEFAULT_CLASSES[k] == "never"]
    if options.json:
        print_json(
            {"path": str(path), "exists": path.exists(), "valid": True, "routes": [*policy.routes],
             "changed": changed, "loosened": loosened}
        )  # fmt: skip
        return 0
    if not path.exists():
        print(f"There is no policy at {path}, so the default one is in force.")
        return 0
    print_text(f"{path} is valid. Routes: {', '.join(policy.routes)}.")
    for kind, sensitivity in changed.items():
        print(
            f"  {kind} is {sensitivity!r}, and would be '{DEFAULT_CLASSES[kind].value}' by default"
        )
    if loosened:
        print_status(f"Warning: by default {', '.join(loosened)} never leaves this machine.")
    return 0


def _new(arguments: Sequence[str]) -> int:
    parser = CommandParser(
        "route new",
        "Write a policy to edit. In a terminal it asks for words that never leave.",
        json=False,
    )
    parser.add_flag("--yes", help="ask nothing")
    options = parser.parse_args(arguments)
    from ...routing.policy.policy_file import policy_template
    from ...stores.atomic_file import write_atomically

    path = _policy_path(load_config(os.environ))
    if os.path.lexists(path):
        raise CommandError(f"{path} already exists.", "Edit it; it is not overwritten.")
    asks = not options.yes and sys.stdin.isatty() and sys.stderr.isatty()
    words = _asked_words() if asks else []
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not piecemeal: what a full disk left of a policy would be in force.
        write_atomically(path, policy_template(words).encode())
    except OSError as error:
        raise CommandError(
            f"{path} cannot be written: {error.strerror}.",
            "Free some space there, or get the right to write.",
        ) from error
    print(path)
    print_status("It takes effect when it is saved; `ingle route check` validates it.")
    return 0


def _asked_words() -> list[str]:
    """Ask for the user's own words; none if every question is skipped."""
    print_status(
        "A text with one of your own words never leaves this machine. They are written into\n"
        "the policy and nowhere else. Separate them by commas (`Ruth, Okafor` finds each alone);\n"
        "Enter skips a question."
    )
    words: list[str] = []
    for question in _OWN_WORD_QUESTIONS:
        print(f"{question}: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:  # the end of the input skips the rest
            print(file=sys.stderr)
            break
        words += [word for each in line.split(",") if (word := " ".join(each.split()))]
    return list(dict.fromkeys(words))


def _schema(arguments: Sequence[str]) -> int:
    parser = CommandParser("route schema", "Print the JSON Schema of policies.", json=False)
    parser.parse_args(arguments)
    from ...routing.policy.policy_tables import policy_schema

    print_json(policy_schema())
    return 0


def _policy_path(config: Config) -> Path:
    from ...routing.policy.policy_file import FILE_NAME

    return config.paths.config / FILE_NAME
