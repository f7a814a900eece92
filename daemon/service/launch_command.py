"""Command line and environment with which a service manager starts the daemon."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..settings.config import Config

_KEPT = ("INGLE_HOME",)
"""Variables that relocate a whole home; other variables belong into `config.toml`."""


class LaunchCommand(NamedTuple):
    """Created by `launch_of`; `environment` is added to what the service manager sets."""

    config: Config
    command: tuple[str, ...]
    environment: dict[str, str]


def launch_of(config: Config, environ: Mapping[str, str]) -> LaunchCommand:
    """Return the command that starts the daemon of this installation for this home."""
    kept = {
        name: str(Path(environ[name]).expanduser().absolute())
        for name in _KEPT
        if environ.get(name)
    }
    command = (sys.executable, "-P", "-m", "ingle.daemon.main", "serve", "--tcp-optional")
    return LaunchCommand(config, command, kept)


def ignored_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the settings of this shell's environment that the service will not have."""
    return sorted(
        name
        for name in environ
        if name.startswith("INGLE_") and name not in _KEPT and not name.startswith("INGLE_TEST_")
    )
