"""Applies a chat's route to a request, asking for consent if the policy requires it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import ClientError
from ingle.daemon.client.routing_types import Explanation

from ..chats.turn_request import TurnRequest
from .chat_route import ASK, AUTO, LOCAL

Choose = Callable[[Explanation], Awaitable[str]]
"""Asks the person; without an answer it returns "local"."""

Notify = Callable[[str], None]


async def request_with_consent(
    client: AsyncDaemonClient, request: TurnRequest, route: str, choose: Choose, tell: Notify
) -> TurnRequest:
    """Return the request for this route; if the route cannot be decided, a local one.

    Nothing has left this machine when this returns.
    """
    if route == "":
        return request
    if route == LOCAL:
        return _here(request)
    asked = replace(
        request,
        model=AUTO if route in (AUTO, ASK) else route,
        route=route if route in (AUTO, ASK) else "",
    )
    try:
        said = await client.explain_routing(asked.body())
    except ClientError as error:
        tell(f"Answered here, since the route could not be decided: {error.message}")
        return _here(request)
    if not said.consents:
        return asked if said.goes_to != "local" else _here(request)
    choice = await choose(said)
    consent = said.consents.get(choice)
    return _here(request) if consent is None else replace(asked, consent=consent)


def _here(request: TurnRequest) -> TurnRequest:
    return replace(request, route=LOCAL)
