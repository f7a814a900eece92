"""`ingle connect`: sets up an editor or an agent for ingle, and tests the connection."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...settings.config import Config, load_config
from ...terminal.terminal_colors import Colour, TerminalColors
from ...terminal.terminal_output import (
    confirmed,
    print_json,
    print_status,
    print_table,
    strip_control_characters,
)
from ..command_errors import CommandError, UsageError
from ..command_parser import CommandParser

if TYPE_CHECKING:
    from pathlib import Path

    from ...access.api_keys import KeyStore
    from ...client.sync_client import DaemonClient
    from ...connect.client_program import ClientProgram
    from ...connect.connect_target import ConnectTarget, ProgramFolders
    from ...connect.settings_change import SettingsChange

EXAMPLES = """\
  ingle connect                       the programs, and which are installed
  ingle connect zed                   show what would be written, and ask
  ingle connect codex --write --model qwen2.5-coder
  ingle connect claude-code --check   test the connection
  ingle connect claude-code --remove
  ingle connect claude-code --launch  start it, with this model for this once
"""

_NEW_KEY = "ingle-<a new key>"
_COLOURS: dict[str, Colour] = {"+": "green", "-": "red", "@": "cyan"}


def main(arguments: Sequence[str]) -> int:
    """Connect one program, or list all; raises `CommandError`."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = _parser().parse_args(arguments[:at])
    options.arguments = arguments[at + 1 :]
    if options.arguments and not options.launch:
        raise UsageError(
            "Arguments after -- are for --launch.", "`ingle connect --help` says more."
        )
    from ...config_editing.document_path import CannotEdit
    from ...connect.connect_target import ProgramFolders

    places = ProgramFolders()
    if options.name is None:
        if any(value for name, value in vars(options).items() if name not in ("name", "json")):
            raise UsageError("No program was named.", "`ingle connect` lists them.")
        return _list(places, as_json=options.json)
    client = _client(options.name)
    try:
        if options.remove:
            return _remove(client, places, options)
        return _connect(client, places, options)
    except CannotEdit as error:
        raise CommandError(
            str(error),
            f"It is unchanged. `ingle connect {client.name} --print` shows what to add.",
        ) from None


def _parser() -> CommandParser:
    parser = CommandParser(
        "connect",
        "Set up an editor or an agent for ingle: shows what it would write into the\n"
        "program's own settings, and asks. Other settings stay, and a backup of each\n"
        "changed file is left beside it. Without a name: lists the programs.",
        examples=EXAMPLES,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a program of the list")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="write without asking")
    how.add_argument("--print", action="store_true", help="print the settings only")
    how.add_argument("--remove", action="store_true", help="remove what was written")
    parser.add_flag("--check", help="send the requests that the program would send")
    parser.add_argument("--model", metavar="MODEL", help="the model for the program")
    parser.add_flag("--launch", help="start it; arguments for it follow after --")
    parser.add_flag("--key", help="create a key for it, and write it into the settings")
    return parser


def _client(name: str) -> ClientProgram:
    from ...connect.client_programs import find_program

    found, near = find_program(name)
    if found is not None:
        return found
    nearest = f"Did you mean `ingle connect {near}`? " if near else ""
    raise UsageError(
        f"ingle does not know a program '{name}'.",
        f"{nearest}`ingle connect` lists all. Any other that uses OpenAI's, Anthropic's or "
        "Ollama's protocol can use the address that `ingle ps` prints.",
    )


def _list(places: ProgramFolders, *, as_json: bool) -> int:
    from ...connect.change_record import ChangeRecord
    from ...connect.client_programs import CLIENTS

    record = ChangeRecord(load_config(os.environ).paths.connections)
    facts: list[dict[str, Any]] = [
        {
            "name": client.name,
            "title": client.title,
            "speaks": client.speaks,
            "installed": client.installed(places),
            "connected": bool(record.files(client.name)),
        }
        for client in CLIENTS.values()
    ]
    if as_json:
        print_json({"clients": facts})
        return 0
    rows = [
        [
            *(each["name"], each["title"], each["speaks"]),
            "connected" if each["connected"] else "found" if each["installed"] else "-",
        ]
        for each in facts
    ]
    print_table(("NAME", "PROGRAM", "SPEAKS", "STATE"), rows)
    return 0


def _connect(client: ClientProgram, places: ProgramFolders, options: Namespace) -> int:
    from ...access.api_keys import KeyStore
    from ...connect.change_record import ChangeRecord
    from ...connect.client_key import has_key, present_key
    from ...connect.launch_program import launch_program
    from ...connect.prompt_preparation import prepare_prompts
    from ...connect.settings_change import plan, write
    from ..daemon_launcher import ensure_daemon

    config = load_config(os.environ)
    daemon = ensure_daemon(config)
    target, warnings = _target(client, config, daemon, options.model)
    store = KeyStore(config.paths.keys)
    key = present_key(store, client.files(target, places))
    # If a program stores its key itself, an earlier one is still there.
    needs_key = _needs_key() and (client.takes_key or not has_key(store, client))
    makes_key = key is None and (options.key or needs_key)
    target = replace(target, key=_NEW_KEY if makes_key else key)

    def with_key() -> ConnectTarget:
        return replace(target, key=_make_key(store, client)) if makes_key else target

    for warning in warnings:
        print_status(f"Warning: {warning}" if warning.startswith(client.title) else warning)
    if options.launch and client.exports(target) and not options.write:
        prepare_prompts(daemon, client, target.model, stable=config.stable_prompts)
        return launch_program(client, with_key(), options.arguments)
    if options.print:
        return _print(client, with_key(), places, as_json=options.json)
    changes = plan(client.files(target, places))
    if options.check and not options.write:
        # A key that is still to be created cannot be tested.
        return _check(client, replace(target, key=key), changes, as_json=options.json)
    changing = any(change.is_one for change in changes)
    if changing and not options.json:
        _print_diff(changes)
    if changing and not options.write and not _agreed():
        return 0
    target = with_key()
    if changing:
        changes = plan(client.files(target, places))
        record = ChangeRecord(config.paths.connections)
        _print_written(changes, write(changes, record, client.name, target))
    elif changes:
        print_status(f"Nothing to change: {client.title} is set up for {target.model} already.")
    notes, kept = client.notes(target), any(change.keeps_other for change in changes)
    if kept:
        notes = [*notes, *client.what_stays(target)]
    if not options.launch:
        _print_remaining_steps(client, target, notes)
    prepare_prompts(daemon, client, target.model, stable=config.stable_prompts)
    if options.check:
        return _check(client, target, plan(client.files(target, places)), as_json=options.json)
    if options.launch:
        chosen = client.selects(target) if kept else []
        return launch_program(client, target, [*chosen, *options.arguments])
    if options.json:
        print_json(_facts(client, target, changes, notes))
    return 0


def _target(
    client: ClientProgram, config: Config, daemon: DaemonClient, wanted: str | None
) -> tuple[ConnectTarget, list[str]]:
    """Return the address and model for the program, and notes for the user."""
    from ...client.client_errors import DaemonError
    from ...connect.change_record import ChangeRecord
    from ...connect.connect_target import ConnectTarget
    from ...connect.model_choice import choose_model, warn_of_context

    status = daemon.status()
    if status.address is None:
        raise CommandError(
            "The daemon listens on its unix socket only, which no editor can use.",
            "Set `port` in the configuration, then `ingle stop`; `ingle ps` shows the address.",
        )
    notes: list[str] = []
    if config.port == 0:
        notes.append("`port` is 0, so the address changes with each start: set another one.")
    entries = daemon.models().models
    # Keep the model that was chosen before.
    record = ChangeRecord(config.paths.connections)
    given, written = record.given(client.name) or (None, 0)
    model, note = wanted or given, None
    if model is None:
        model, note = choose_model(client, entries, status.default_model)
    try:
        found = daemon.get(f"/v1/models/{quote(model, safe='')}", dict[str, Any])
    except DaemonError as error:
        if wanted is not None or error.code != "model_not_found":
            raise
        known = next((entry for entry in entries if entry.name == model), None)
        found = {"id": model, "context_length": known.context if known else 0}
        notes.append(f"{model} is not installed yet: `ingle pull {model}` fetches it.")
    name, context = str(found["id"]), int(found.get("context_length") or 0)
    if name == given and written and found.get("state") != "ready":
        # Before it is loaded its context is an estimate, which varies with free memory.
        context = written
    notes += [line for line in (note, warn_of_context(client, name, context)) if line]
    url = f"http://{status.address}"
    return ConnectTarget(url=url, model=name, context=context or 4096), notes


def _needs_key() -> bool:
    """Whether the system does not report which user a TCP connection belongs to."""
    return sys.platform != "linux"


def _make_key(store: KeyStore, client: ClientProgram) -> str:
    from ...connect.client_key import make_key

    name, key = make_key(store, client)
    print_status(f"The key '{name}' was created for {client.title}; `ingle key list` shows all.")
    return key


def _print(
    client: ClientProgram, target: ConnectTarget, places: ProgramFolders, *, as_json: bool
) -> int:
    files = client.files(target, places)
    if as_json:
        texts = {str(file.path): file.edited("") for file in files}
        print_json({**_facts(client, target, [], client.notes(target)), "files": texts})
        return 0
    for file in files:
        print_status(f"{file.path}:")
        print(file.edited(""), end="")
    exports = _exports(client, target)
    if not files:
        print(exports, end="")
    elif exports:
        print_status(f"For one shell only:\n{exports.rstrip()}")
    for note in client.notes(target):
        print_status(note)
    return 0


def _exports(client: ClientProgram, target: ConnectTarget) -> str:
    import shlex

    return "".join(
        f"export {name}={shlex.quote(value)}\n" for name, value in client.exports(target)
    )


def _print_diff(changes: Sequence[SettingsChange]) -> None:
    lines = [line for change in changes for line in change.diff()]
    print("\n".join(map(_coloured, lines)))


def _agreed() -> bool:
    """Ask if there is a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_status("Nothing is written yet: `--write` does it.")
        return False
    if confirmed("Write this?"):
        return True
    print_status("Nothing was written.")
    return False


def _coloured(line: str) -> str:
    """Return the line in the colour of its mark, without control characters but tabs."""
    text = "\t".join(map(strip_control_characters, line.split("\t")))
    colour = _COLOURS.get(text[:1])
    return TerminalColors.for_output().colour(text, colour) if colour else text


def _print_written(changes: Sequence[SettingsChange], backups: Sequence[Path]) -> None:
    for change in changes:
        if change.is_one:
            print_status(f"{'Removed' if change.after is None else 'Written'}: {change.path}")
    for backup in backups:
        print_status(f"Backup: {backup}")


def _print_remaining_steps(
    client: ClientProgram, target: ConnectTarget, notes: Sequence[str]
) -> None:
    if not client.writes:
        print(_exports(client, target), end="")
    for note in notes:
        print_status(note)
    print_status(
        "The daemon must run when the program connects: any ingle command starts it, and "
        "`ingle serve` runs it in the foreground."
    )


def _check(
    client: ClientProgram,
    target: ConnectTarget,
    changes: Sequence[SettingsChange],
    *,
    as_json: bool,
) -> int:
    """Print the result of each test; 1 if one fails."""
    from ...connect.connection_probe import ConnectionProber, ProbeOutcome

    outcomes: list[ProbeOutcome] = []

    def report(outcome: ProbeOutcome) -> None:
        outcomes.append(outcome)
        if not as_json:
            state = "ok     " if outcome.worked else "failed "
            print(strip_control_characters(f"{state} {outcome.what}: {outcome.detail}"), flush=True)

    for change in changes:
        detail = f"not written yet: `ingle connect {client.name} --write`"
        if not change.is_one:
            detail = "is set up"
        report(ProbeOutcome(str(change.path), not change.is_one, detail))
    prober = ConnectionProber(target)
    for probe in client.probes:
        report(prober.run(probe))
    worked = all(outcome.worked for outcome in outcomes)
    if as_json:
        facts = {"client": client.name, "model": target.model}
        print_json({**facts, "worked": worked, "checks": outcomes})
    return 0 if worked else 1


def _remove(client: ClientProgram, places: ProgramFolders, options: Namespace) -> int:
    from ...access.api_keys import KeyStore
    from ...connect.change_record import ChangeRecord
    from ...connect.client_key import revoke_key
    from ...connect.connect_target import ConnectTarget
    from ...connect.settings_change import plan_removal, take_back

    config = load_config(os.environ)
    target = ConnectTarget(url=f"http://{config.host}:{config.port}", model="", context=4096)
    record = ChangeRecord(config.paths.connections)
    changes = plan_removal(record, client.name, client.files(target, places))
    changing = any(change.is_one for change in changes)
    if changing and not options.json:
        _print_diff(changes)
    # --remove is explicit enough not to ask; the diff and the backups show what is removed.
    _print_written(changes, take_back(changes, record, client.name))
    if not changing:
        print_status(f"The settings of {client.title} contain nothing of ingle's.")
    if revoke_key(KeyStore(config.paths.keys), client):
        print_status("Its key is revoked.")
    if options.json:
        print_json({"client": client.name, "files": [str(c.path) for c in changes if c.is_one]})
    return 0


def _facts(
    client: ClientProgram,
    target: ConnectTarget,
    changes: Sequence[SettingsChange],
    notes: Sequence[str],
) -> dict[str, object]:
    return {
        "client": client.name,
        "model": target.model,
        "context": target.context,
        "url": target.url,
        "written": [str(change.path) for change in changes if change.is_one],
        "variables": dict(client.exports(target)),
        "notes": notes,
    }
