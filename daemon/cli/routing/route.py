"""`ingle route`: shows what may leave this machine, and why a text may or may not."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from ...settings.config import Config, load_config
from ...terminal.terminal_output import (
    format_table,
    print_json,
    print_status,
    strip_control_characters,
    table_columns,
)
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser
from ..daemon_launcher import ensure_daemon

HELP = """\
usage: ingle route [--json]                     what is in force
       ingle route explain TEXT|- [--file FILE] [--model ROUTE] [--json]
       ingle route check [FILE]                 validate a policy
       ingle route new                          write a policy to start from
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
_SHOWN_FINDINGS = 40
_SHOWN_CHARACTERS = 40


def main(arguments: Sequence[str]) -> int:
    """Run one of the five subcommands; raises `CommandError`."""
    actions: dict[str, Callable[[Sequence[str]], int]] = {
        "explain": _explain,
        "check": _check,
        "new": _new,
        "schema": _schema,
    }
    if arguments and arguments[0] in {"-h", "--help"}:
        print(HELP, end="")
        return 0
    if not arguments or arguments[0].startswith("-"):
        return _show(arguments)
    action, *rest = arguments
    if action not in actions:
        raise UsageError(
            f"There is no `ingle route {action}`.", "`ingle route --help` lists the subcommands."
        )
    from ...routing.policy.policy_file import PolicyError

    try:
        return actions[action](rest)
    except PolicyError as error:
        raise CommandError(error.message, error.hint) from error


def _show(arguments: Sequence[str]) -> int:
    parser = CommandParser("route", "Show the policy, the routes and the providers in force.")
    parser.add_json()
    options = parser.parse_args(arguments)
    client = ensure_daemon(load_config(os.environ))
    state: dict[str, Any] = client.get("/ingle/v1/routing")
    if options.json:
        print_json(state)
        return 0
    _say_what_leaves(state)
    rows = [
        [r["name"], r["local"], r["remote"] or "-", r["prefer"], ", ".join(r["escalate"]) or "-"]
        for r in state["routes"]
    ]
    headers = ("ROUTE", "HERE", "ELSEWHERE", "PREFERS", "ESCALATES")
    print(format_table(headers, rows, columns=table_columns()))
    if state["providers"]:
        print()
        rows = [
            [p["name"], p["kind"], ", ".join(p["models"]) or "-", p["trouble"] or "ready"]
            for p in state["providers"]
        ]
        print(format_table(("PROVIDER", "KIND", "MODELS", "STATE"), rows, columns=table_columns()))
    return 0


def _say_what_leaves(state: dict[str, Any]) -> None:
    own = (
        "your policy" if state["policy_exists"] else "the default one; `ingle route new` writes one"
    )
    if state["policy_trouble"]:
        line = f"Nothing leaves this machine: {state['policy_trouble']}"
    elif state["offline"]:
        line = "Nothing leaves this machine: ingle is offline."
    elif not state["enabled"]:
        line = "Nothing leaves this machine: no provider is set up. `ingle provider` does that."
    else:
        line = "What the policy allows may leave this machine; `ingle ledger` lists what did."
    print(strip_control_characters(line))
    print(strip_control_characters(f"policy: {state['policy']} ({own})"))
    print()


def _explain(arguments: Sequence[str]) -> int:
    options = _explain_parser().parse_args(arguments)
    text = _text(options)
    body: dict[str, Any] = {"text": text, "model": options.model, "private": options.private}
    if options.override is not None:
        body["override"] = options.override
    client = ensure_daemon(load_config(os.environ))
    explanation = client.post("/ingle/v1/routing/explain", body, timeout=120.0)
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
    parser.add_argument("--private", action="store_true", help="as a private request")
    parser.add_argument(
        "--override",
        choices=("never",),
        help="with --json, assume consent although there is something that never leaves",
    )
    parser.add_json()
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
        raise CommandError(f"{options.file} cannot be read: {error.strerror}.", None) from error


def _print_explanation(explained: dict[str, Any], text: str) -> None:
    goes = explained["goes_to"]
    where = "on this machine" if goes == "local" else f"by {goes}"
    print(
        f"{explained['verdict']}: {_VERDICTS[explained['verdict']]} It would be answered {where}."
    )
    columns = table_columns() or 80
    print(
        strip_control_characters(
            fill(explained["reason"], min(columns, 100), break_on_hyphens=False)
        )
    )
    print(f"rule: {explained['rule']}")
    findings: list[dict[str, Any]] = explained["findings"]
    if findings:
        print()
        rows = [
            [f["kind"], f["class"], _excerpt(text, f), f"{f['start']}-{f['end']}", f["detector"]]
            for f in findings[:_SHOWN_FINDINGS]
        ]
        headers = ("KIND", "CLASS", "TEXT", "PLACE", "BY")
        print(format_table(headers, rows))
        if len(findings) > _SHOWN_FINDINGS:
            print(f"and {len(findings) - _SHOWN_FINDINGS} more; --json lists all.")
    for redacted in explained["redacted"]:
        print(f"\nWith placeholders it would be:\n{strip_control_characters(redacted['text'])}")


def _excerpt(text: str, finding: dict[str, Any]) -> str:
    found = " ".join(text[finding["start"] : finding["end"]].split())
    return found if len(found) <= _SHOWN_CHARACTERS else f"{found[: _SHOWN_CHARACTERS - 1]}…"


def _check(arguments: Sequence[str]) -> int:
    parser = CommandParser("route check", "Validate a policy, and show its errors.")
    parser.add_argument("file", nargs="?", metavar="FILE", help="(the policy in force)")
    parser.add_json()
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
    print(strip_control_characters(f"{path} is valid. Routes: {', '.join(policy.routes)}."))
    for kind, sensitivity in changed.items():
        print(
            f"  {kind} is {sensitivity!r}, and would be '{DEFAULT_CLASSES[kind].value}' by default"
        )
    if loosened:
        print_status(f"Warning: by default {', '.join(loosened)} never leaves this machine.")
    return 0


def _new(arguments: Sequence[str]) -> int:
    parser = CommandParser("route new", "Write a policy to edit, which changes nothing yet.")
    parser.parse_args(arguments)
    from ...routing.policy.policy_file import policy_template

    path = _policy_path(load_config(os.environ))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(policy_template())
    except FileExistsError:
        raise CommandError(f"{path} already exists.", "Edit it; it is not overwritten.") from None
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.", None) from error
    print(path)
    print_status("It takes effect when it is saved; `ingle route check` validates it.")
    return 0


def _schema(arguments: Sequence[str]) -> int:
    CommandParser("route schema", "Print the JSON Schema of policies.").parse_args(arguments)
    from ...routing.policy.policy_tables import policy_schema

    print_json(policy_schema())
    return 0


def _policy_path(config: Config) -> Path:
    from ...routing.policy.policy_file import FILE_NAME

    return config.paths.config / FILE_NAME
