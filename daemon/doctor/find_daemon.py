"""Finds the daemon as a command would, in any state."""

from __future__ import annotations

from ..client.client_errors import ClientError
from ..client.sync_client import DaemonClient
from ..settings.config import Config
from .system_state import DaemonState


def find_daemon(config: Config) -> DaemonState:
    """Return the daemon's own status, or why it does not answer."""
    client = DaemonClient(config.socket)
    place = str(config.socket)
    moved = config.paths.socket_moved and config.socket == config.paths.socket
    try:
        if not client.answers():
            return DaemonState(socket=place, socket_moved=moved)
        status = client.status()
    except ClientError as error:
        return DaemonState(
            state="silent",
            socket=place,
            socket_moved=moved,
            error=error.message,
            hint=error.hint or "",
        )
    return DaemonState(
        state="running",
        version=status["version"],
        pid=status["pid"],
        address=status["address"] or "",
        socket=status["socket"],
        socket_moved=moved,
    )
