"""The field `ingle` of request bodies, and the origin of a request: client, privacy, priority."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import HTTPConnection

from ingle.backends.base.requests import Priority

from ..access.client_identity import identify_client
from ..errors import InvalidBody
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

    Requests of `priority` batch wait for interactive ones. `client` distinguishes the clients of
    one program, which are served fairly. A `private` request is never written to disk.
    `conversation` names what the request belongs to. `speculation` false forbids draft tokens,
    which changes only the speed. `route` says whether the policy decides where the request is
    answered (`auto`), it stays on this machine (`local`), or leaves with a `consent` only (`ask`).
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


def refuse_private(request: HTTPConnection) -> None:
    """Raise `InvalidBody` for a private request of which everything would be stored."""
    if is_private(None, request.headers):
        raise InvalidBody(
            "A private request is never written to disk, and this one asks for just that.",
            hint="Leave the header Ingle-Private out.",
        )


def is_private(options: IngleOptions | None, headers: Mapping[str, str]) -> bool:
    """Whether the body or the header makes a request private."""
    header = headers.get(PRIVATE_HEADER.name, "false")
    return bool(options and options.private) or header.strip().lower() not in _NO


def routing_preference_of(options: IngleOptions | None) -> RoutingPreference:
    """The routing preference of a request."""
    if options is None or (options.route is None and options.consent is None):
        return NO_PREFERENCE
    return RoutingPreference(route=options.route, consent=options.consent)


class RequestOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """The client and conversation of a request; its `priority` overrides the body's.

    Requests of one `client` share its part of the machine.
    """

    client: str = ""
    private: bool = False
    conversation: str = ""
    priority: Priority | None = None

    def request_fields(
        self, options: IngleOptions | None, tier: str | None = None
    ) -> dict[str, Any]:
        """The fields of a `GenerateRequest` that depend on its origin; `tier` flex means batch."""
        own = options or IngleOptions()
        usual = Priority.BATCH if tier == "flex" else Priority.INTERACTIVE
        return {
            "priority": self.priority or own.priority or usual,
            "client": self.client,
            "conversation": self.conversation or own.conversation or "",
            "private": self.private or bool(own.private),
            "speculation": own.speculation is not False,
        }


def origin_of(
    request: HTTPConnection, options: IngleOptions | None, *names: object
) -> RequestOrigin:
    """The origin of a request; `names` are its protocol's fields for it, see `identify_client`."""
    named = options.client if options is not None else None
    return RequestOrigin(
        client=named or identify_client(request, *names),
        private=is_private(options, request.headers),
        conversation=(options and options.conversation) or "",
    )
