"""`Route`: where a message goes, and why."""

from __future__ import annotations

from typing import NamedTuple

_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "[::1]", "localhost"})


class Route(NamedTuple):
    """`kind` is what a message's facts keep; `mark` and `word` say it in the line above the draft.

    `promise` is what follows from it, `reason` a sentence about why, and `short` that in two words.
    """

    kind: str
    mark: str
    word: str
    promise: str
    reason: str
    short: str


def route_to(endpoint: str) -> Route:
    """Where everything goes that is sent to the daemon at a socket's path or at `host:port`."""
    host = endpoint.rpartition(":")[0]
    if "/" in endpoint or "\\" in endpoint or host in _THIS_MACHINE:
        return Route(
            "local",
            "⌂",
            "LOCAL",
            "nothing leaves this machine",
            "The model runs on this machine, and no cloud provider is configured.",
            "only route",
        )
    return Route(
        "remote",
        "☁",
        "OTHER MACHINE",
        f"goes to the daemon at {endpoint}",
        f"The chat was started with the daemon at {endpoint}, which is not on this machine; "
        "no cloud provider is configured.",
        "its daemon",
    )
