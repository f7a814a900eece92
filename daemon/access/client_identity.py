"""Identifies clients, so that several are served fairly."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from ..http.http_protocol import CONNECTION
from ..transport.peer import PeerConnection

_LONGEST = 200


def identify_client(request: HTTPConnection, *names: object) -> str:
    """Return a name for the client: its process id if known, else the first text in `names`.

    `names` are fields of the body; without any it is the User-Agent header. Permissions do not
    depend on it.
    """
    connection: PeerConnection | None = request.scope.get("state", {}).get(CONNECTION)
    if connection is not None and connection.pid is not None:
        return f"process {connection.pid}"
    for name in names:
        if isinstance(name, str) and name:
            return f"user {name[:_LONGEST]}"
    return f"agent {request.headers.get('user-agent', '')[:_LONGEST]}"
