"""`ingle doctor`: diagnoses this machine and the installation, and suggests repairs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from ...settings.config import Config, ConfigError, load_config
from ...settings.paths import find_paths
from ...terminal.terminal_colors import TerminalColors
from ...terminal.terminal_output import print_json
from ...terminal.unsafe_characters import with_colours_only
from ..command_parser import CommandParser

EXAMPLES = """\
  ingle doctor
  ingle doctor --json > machine.json     facts for a program
  ingle doctor --bundle                  a report for an issue, without content"""
_COLUMNS_OF_FILES = 80


def main(arguments: Sequence[str]) -> int:
    """Print the machine and the findings; 1 if something is broken."""
    parser = CommandParser(
        "doctor",
        "Check this machine and ingle's installation, and suggest how to fix what is\n"
        "wrong. It changes nothing, and nothing leaves the machine.",
        examples=EXAMPLES,
    )
    parser.add_json()
    parser.add_argument(
        "--anew", action="store_true", help="repeat measurements instead of using stored ones"
    )
    parser.add_argument(
        "--bundle",
        nargs="?",
        const=".",
        metavar="FILE",
        help='write a report without content into a file; "-" prints it',
    )
    parser.add_argument(
        "--with-models", action="store_true", help="name models of your own in the report"
    )
    options = parser.parse_args(arguments)
    import msgspec

    from ...doctor.diagnose import DoctorReport, diagnose
    from ...doctor.find_daemon import find_daemon
    from ...doctor.read_system_state import read_system_state
    from ...doctor.report_text import report

    config, error = _settings()
    daemon = find_daemon(config)
    situation = read_system_state(config, daemon, error=error, anew=options.anew)
    if options.bundle is not None:
        from .doctor_bundle import bundle

        return bundle(config, situation, options.bundle, with_models=options.with_models)
    diagnosis = diagnose(situation)
    if options.json:
        print_json(msgspec.to_builtins(DoctorReport.of(situation)))
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _COLUMNS_OF_FILES
        text = report(situation, diagnosis, columns=columns, paint=TerminalColors.for_output())
        print(with_colours_only(text))
    return 1 if diagnosis.broken else 0


def _settings() -> tuple[Config, tuple[str, str]]:
    """Return the settings in force; if they are invalid, the defaults and the error."""
    try:
        return load_config(os.environ), ("", "")
    except ConfigError as error:
        return Config(paths=find_paths(os.environ)), (error.message, error.hint or "")
