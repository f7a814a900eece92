"""The wire types of what the native API tells of routing."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from .types import GenerationRequest


class ExplainRequest(GenerationRequest, frozen=True, kw_only=True):
    """A `text` alone, or the body of a generation.

    With `override` a consent can be had for what holds something of the class `never`.
    """

    text: Annotated[str, Meta(max_length=2**26)] | None = None
    override: Literal["never"] | None = None
