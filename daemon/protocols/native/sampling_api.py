"""`GET /ingle/v1/sampling`: the sampling options that requests may set, and their bounds."""

from __future__ import annotations

import msgspec

from ingle.backends.base.sampling_params import SAMPLING_OPTIONS, SamplingParams

from ...http.route_access import READ
from .native_api import native_route


class SamplingOptionInfo(msgspec.Struct, frozen=True):
    """One option: its bounds, the default of ingle, and the value that turns it off, if any.

    `minimum` itself is not allowed if it is `exclusive`; `in_chat` marks those of the chat.
    """

    name: str
    minimum: float
    maximum: float
    exclusive: bool
    is_integer: bool
    default: float
    off: float | None
    in_chat: bool
    description: str


class SamplingOptionList(msgspec.Struct, frozen=True):
    """Every option that is a number, in the order of docs/api.md."""

    options: list[SamplingOptionInfo]


class SamplingApi:
    """The table of sampling options, for clients with settings for them."""

    @native_route("GET", "/ingle/v1/sampling", access=READ)
    async def options(self) -> SamplingOptionList:
        """The sampling options."""
        return list_sampling_options()


def list_sampling_options() -> SamplingOptionList:
    """Return the rows of `SAMPLING_OPTIONS` as API types."""
    defaults = SamplingParams()
    return SamplingOptionList(
        [
            SamplingOptionInfo(
                name,
                *option.bounds,
                option.exclusive,
                option.is_integer,
                getattr(defaults, name),
                option.off,
                option.in_chat,
                option.description,
            )
            for name, option in SAMPLING_OPTIONS.items()
        ]
    )
