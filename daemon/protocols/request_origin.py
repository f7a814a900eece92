"""For whom a request is answered."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from ingle.backends.base.requests import Priority

from ..access.client_identity import identify_client
from .ingle_options import IngleOptions, is_private


@dataclass(frozen=True, kw_only=True)
class RequestOrigin:
    """What is known of a request beside its body; `priority` counts before what the body says.

    Clients of one name share what is theirs; what is `private` is never written to disk. The
    `conversation` names what it belongs to.
    """

    client: str = ""
    private: bool = False
    conversation: str = ""
    priority: Priority | None = None


def origin_of(request: Request, options: IngleOptions | None, *names: object) -> RequestOrigin:
    """Whose request it is; `names` are what its protocol has for that, see `identify_client`."""
    named = options.client if options is not None else None
    return RequestOrigin(
        client=named or identify_client(request, *names),
        private=is_private(options, request.headers),
        conversation=(options and options.conversation) or "",
    )
