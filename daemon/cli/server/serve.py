"""`ingle serve`: runs the daemon in the foreground."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence

from ...settings.config import load_config
from ..command_errors import UsageError
from ..command_parser import CommandParser

FLAGS = ("host", "port", "socket", "allow_lan", "allow_plain_lan", "log_level", "offline")
"""The settings that have a flag."""


def main(arguments: Sequence[str]) -> int:
    """Serve until `ingle stop`, SIGTERM or Ctrl-C; raises the error that keeps it from starting."""
    parser = CommandParser(
        "serve",
        "Run the daemon in the foreground, until `ingle stop` or Ctrl-C. Commands that\n"
        "need the daemon start it by themselves; this is for services, and to watch\n"
        "its log.",
        json=False,
    )
    parser.add_argument(
        "--host", metavar="ADDRESS", help="127.0.0.1, the default, or another address"
    )
    parser.add_argument(
        "--port", metavar="N", help="the TCP port (4645); 0 takes any free one, -1 none"
    )
    parser.add_flag("--allow-lan", help="let other machines reach --host, with a key and TLS")
    parser.add_flag("--allow-plain-lan", help="… without TLS, if the network itself is encrypted")
    parser.add_argument("--socket", metavar="PATH", help="the unix socket")
    parser.add_argument(
        "--log-level", metavar="LEVEL", help="debug, info (default), warning, error"
    )
    parser.add_flag("--offline", help="download nothing, connect to no provider")
    parser.add_flag("--tcp-optional", help="if the port is in use, do without TCP")
    options = parser.parse_args(arguments)
    # A switch that is not given leaves the setting as it is.
    given = {name: value for name, value in vars(options).items() if value is not False}
    config = load_config(os.environ, {name: given.get(name) for name in FLAGS})

    # The server's packages take a while to import, which the help does not need.
    # Collections while they are imported would find next to nothing.
    gc.disable()
    from ...access.exposure import Exposed
    from ...server.daemon_server import run

    try:
        run(config, tcp_optional=options.tcp_optional)
    except Exposed as error:
        raise UsageError(error.message, error.hint) from error
    return 0
