"""`ingle version`: prints the version."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata

from ...terminal.terminal_output import print_json
from ..command_parser import CommandParser


def installed_version() -> str:
    """Return the version of the installed package."""
    return metadata.version("ingle")


def main(arguments: Sequence[str]) -> int:
    """Print the version; always 0."""
    parser = CommandParser("version", "Print the version of ingle.")
    parser.add_json()
    options = parser.parse_args(arguments)
    version = installed_version()
    if options.json:
        print_json({"version": version, "python": platform.python_version()})
    else:
        print(f"ingle {version}")
    return 0
