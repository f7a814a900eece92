"""What a request may say that its protocol has no words for."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ingle.backends.base import Priority

ClientName = Annotated[str, Meta(min_length=1, max_length=200)]


class IngleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The field `ingle` of a body; the native API has the same fields beside its own.

    `priority` batch lets interactive requests go first. `client` is who the request is for, where
    one program asks for several: clients are served fairly.
    """

    priority: Priority | None = None
    client: ClientName | None = None
