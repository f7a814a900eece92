"""Whose request it is, as far as serving several clients fairly needs to know."""

from __future__ import annotations

from starlette.requests import Request

from ..http.http_protocol import CONNECTION
from ..transport.peer import PeerConnection

_LONGEST = 200


def identify_client(request: Request, *names: object) -> str:
    """A name for the client: its process where the kernel tells, else what it says of itself.

    `names` are fields of the body, of which the first text counts; without one it is the program's
    own name. Nothing is allowed or refused because of it.
    """
    connection: PeerConnection | None = request.scope.get("state", {}).get(CONNECTION)
    if connection is not None and connection.pid is not None:
        return f"process {connection.pid}"
    for name in names:
        if isinstance(name, str) and name:
            return f"user {name[:_LONGEST]}"
    return f"agent {request.headers.get('user-agent', '')[:_LONGEST]}"
