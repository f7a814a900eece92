"""The command that starts the daemon, and its environment."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..settings.config import Config

SERVE = (sys.executable, "-P", "-m", "ingle.daemon.main", "serve", "--tcp-optional")
"""`-P` keeps the working folder off the path, where a user's folders could hide other packages.

Commands need the unix socket only, so another program on the port must not stop them.
"""


class LaunchCommand(NamedTuple):
    """How to start the daemon; `environment` is added to what the service manager sets."""

    config: Config
    command: tuple[str, ...]
    environment: dict[str, str]


def launch_of(config: Config, environ: Mapping[str, str]) -> LaunchCommand:
    """Return the command that starts the daemon of this installation for this home."""
    return LaunchCommand(config, SERVE, absolute_home(environ))


def ignored_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the variables of this shell that the service will not have: all settings but the home.

    They belong in `config.toml`.
    """
    settings = (name for name in environ if name.startswith("INGLE_") and name != "INGLE_HOME")
    return sorted(name for name in settings if not name.startswith("INGLE_TEST_"))


def absolute_home(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `INGLE_HOME`, if it is set, as an absolute path: the daemon runs in another folder."""
    home = environ.get("INGLE_HOME")
    return {"INGLE_HOME": str(Path(home).expanduser().absolute())} if home else {}
