"""Starts a connected program."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from ..cli.command_errors import CommandError
from .client_program import ClientProgram
from .connect_target import ConnectTarget


def launch_program(client: ClientProgram, target: ConnectTarget, arguments: Sequence[str]) -> int:
    """Run the program in this terminal, with its variables; return its exit status."""
    path = shutil.which(client.command) if client.command else None
    if path is None:
        what = f"The command '{client.command}' was not found" if client.command else "It has none"
        raise CommandError(
            f"{client.title} cannot be started from here. {what}.",
            "Install it, or start it as you usually do.",
        )
    environment = {**os.environ, **dict(client.exports(target))}
    return subprocess.run([path, *arguments], env=environment, check=False).returncode
