"""`ingle doctor`: diagnoses this machine and the installation, and suggests repairs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...settings.config import Config, ConfigError, load_config
from ...settings.paths import find_paths
from ...terminal.terminal_colors import TerminalColors
from ...terminal.terminal_output import format_bytes, print_json, print_status, text_columns
from ...terminal.unsafe_characters import with_colours_only
from ..command_errors import CommandError
from ..command_parser import CommandParser

if TYPE_CHECKING:
    from ...doctor.system_state import DoctorReport

EXAMPLES = """\
  ingle doctor
  ingle doctor --json > machine.json     facts for a program
  ingle doctor --bundle                  a report for an issue, without content
  ingle doctor --escape                  try to escape from a model's process"""


def main(arguments: Sequence[str]) -> int:
    """Print the machine and the findings; 1 if something is broken."""
    parser = CommandParser(
        "doctor",
        "Check this machine and ingle's installation, and suggest how to fix what is\n"
        "wrong. It changes nothing, and nothing leaves the machine.",
        examples=EXAMPLES,
    )
    parser.add_flag("--anew", help="repeat measurements instead of using stored ones")
    parser.add_argument(
        "--bundle",
        nargs="?",
        const=".",
        metavar="FILE",
        help='write a report without content into a file; "-" prints it',
    )
    parser.add_flag("--with-models", help="name models of your own in the report")
    parser.add_flag("--escape", help="try what a compromised model could, and say what was stopped")
    options = parser.parse_args(arguments)
    if options.escape:
        return _try_to_escape(json=options.json)
    from ...doctor.diagnose import diagnose
    from ...doctor.read_system_state import find_daemon, read_system_state

    config, error = _settings()
    report = diagnose(
        read_system_state(config, find_daemon(config), error=error, anew=options.anew)
    )
    if options.bundle is not None:
        return _write_bundle(config, report, options.bundle, with_models=options.with_models)
    if options.json:
        print_json(report)
    else:
        from ...doctor.report_text import report_text

        text = report_text(report, columns=text_columns(), paint=TerminalColors.for_output())
        print(with_colours_only(text))
    return 0 if report.ok else 1


def _try_to_escape(*, json: bool) -> int:
    """Print the attempts; 1 if one succeeded that should not. Raises `CommandError`."""
    from ingle.backends.base.errors import BackendError

    from ...doctor.escape_report import escape_text, report_escapes

    config, _ = _settings()
    try:
        report = report_escapes(confine=config.confine)
    except BackendError as error:
        raise CommandError(error.message, error.hint) from error
    if json:
        print_json(report)
    else:
        print(escape_text(report, columns=text_columns()))
    return 0 if report.ok else 1


def _write_bundle(config: Config, report: DoctorReport, target: str, *, with_models: bool) -> int:
    """Print the bundle if `target` is "-", else write it into that file or folder.

    Raises `CommandError`.
    """
    from ...doctor.support_bundle import make_bundle, write_bundle

    files, redactions = make_bundle(config, report, with_models=with_models)
    if target == "-":
        for name, content in files.items():
            print(f"===== {name}\n{content.decode()}")
        return 0
    path = Path(target).expanduser()
    if path.is_dir():
        path /= f"ingle-report-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    for name, content in files.items():
        print(f"{format_bytes(len(content)):>8}  {name}")
    print(f"{redactions} names, paths and quotes were removed.")
    try:
        write_bundle(path, files)
    except FileExistsError as error:
        raise CommandError(f"{path} exists.", "Name another file.") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
    print(f"Wrote {path}")
    print_status("`ingle doctor --bundle -` prints all of it: read it before you send it.")
    return 0


def _settings() -> tuple[Config, tuple[str, str]]:
    """Return the settings in force; if they are invalid, the defaults and the error."""
    try:
        return load_config(os.environ), ("", "")
    except ConfigError as error:
        return Config(paths=find_paths(os.environ)), (error.message, error.hint or "")
