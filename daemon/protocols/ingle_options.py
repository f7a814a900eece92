"""What a request may say that its protocol has no words for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from ingle.backends.base.requests import Priority

from ..http.route_spec import Parameter
from ..routing.policy.routing_preference import (
    NO_PREFERENCE,
    ConsentToken,
    RoutingMode,
    RoutingPreference,
)

_NO = frozenset({"", "0", "false", "no"})
ClientName = Annotated[str, Meta(min_length=1, max_length=200)]


class IngleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The field `ingle` of a body; the native API has the same fields beside its own.

    `priority` batch lets interactive requests go first. `client` is who the request is for, where
    one program asks for several: clients are served fairly. What is `private` is never written to
    disk. `conversation` names what the request belongs to. `speculation` false forbids guesses,
    which changes nothing but the speed. `route` says whether the policy decides where the request
    is answered (`auto`), or it stays here (`local`), or leaves with a `consent` alone (`ask`).
    """

    priority: Priority | None = None
    client: ClientName | None = None
    conversation: Annotated[str, Meta(max_length=200)] | None = None
    private: bool | None = None
    speculation: bool | None = None
    route: RoutingMode | None = None
    consent: ConsentToken | None = None


PRIVATE_HEADER = Parameter(
    "Ingle-Private",
    "header",
    str,
    "The same as the field `private`, unless it is empty, 0, no or false; one of them is enough.",
)


def is_private(options: IngleOptions | None, headers: Mapping[str, str]) -> bool:
    """Whether the body or the header says so; a header counts unless it clearly says no."""
    header = headers.get(PRIVATE_HEADER.name, "false")
    return bool(options and options.private) or header.strip().lower() not in _NO


def routing_preference_of(options: IngleOptions | None) -> RoutingPreference:
    """What a request says of its way."""
    if options is None or (options.route is None and options.consent is None):
        return NO_PREFERENCE
    return RoutingPreference(route=options.route, consent=options.consent)
