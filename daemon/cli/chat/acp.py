"""`ingle acp`: serves the chat as an agent to editors that speak the Agent Client Protocol."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence

from ...installed_version import installed_version
from ...settings.paths import find_paths
from ..command_errors import UsageError
from ..command_parser import CommandParser
from ..model_reference import sendable_reference
from .chat import find_socket

EXAMPLES = """\
  ingle acp
  ingle acp qwen2.5-coder:1.5b

  "agent_servers": {                      in the settings of Zed
    "ingle": {"type": "custom", "command": "ingle", "args": ["acp"]}
  }"""


def main(arguments: Sequence[str]) -> int:
    """Serve the client on stdin and stdout until it leaves; raises `UsageError` without one."""
    parser = CommandParser(
        "acp",
        "Serve the chat, with its tools, as an agent over stdin and stdout: for Zed,\n"
        "JetBrains IDEs and other clients of the Agent Client Protocol, which start it.",
        examples=EXAMPLES,
        json=False,
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="the model of new chats (default: the configured one)",
    )
    options = parser.parse_args(arguments)
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        raise UsageError(
            "`ingle acp` is for editors, which start it and talk to it over pipes.",
            "`ingle` opens the chat; `ingle acp --help` has the settings of an editor.",
        )
    paths = find_paths(os.environ)
    paths.check_private()
    from ingle.tui.acp.acp_main import run_acp
    from ingle.tui.settings.chat_folders import ChatFolders

    def start_daemon() -> None:
        from ...settings.config import load_config
        from ..daemon_launcher import ensure_daemon

        ensure_daemon(load_config(os.environ), say=lambda text: None)

    return run_acp(
        socket_path=str(find_socket(os.environ)),
        folders=ChatFolders(paths.chats, paths.config),
        model=None if options.model is None else sendable_reference(options.model),
        start_daemon=start_daemon,
        version=installed_version(),
    )
