"""The routing preference of a single request."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

RoutingMode = Literal["auto", "local", "ask"]
ConsentToken = Annotated[str, Meta(min_length=1, max_length=200)]


class RoutingPreference(msgspec.Struct, frozen=True, kw_only=True):
    """`auto` applies the policy to any model name, `local` keeps the request here, `ask` releases
    it with a `consent` only. Without a `route` the model's name decides.
    """

    route: RoutingMode | None = None
    consent: str | None = None


NO_PREFERENCE = RoutingPreference()
