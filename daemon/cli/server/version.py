"""`ingle version`: prints the version."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata

from ...terminal.terminal_output import print_json
from ..command_parser import CommandParser


def main(arguments: Sequence[str]) -> int:
    """Print the version; always 0."""
    options = CommandParser("version", "Print the version of ingle.").parse_args(arguments)
    version = metadata.version("ingle")
    if options.json:
        print_json({"version": version, "python": platform.python_version()})
    else:
        print(f"ingle {version}")
    return 0
