"""The wire types of what the native API tells of routing."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from .types import GenerationRequest


class RoutingProvider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider; `trouble` says why it is not `ready`, `own` that the server is the owner's."""

    name: str
    kind: str
    own: bool
    models: list[str]
    ready: bool
    trouble: str


class RoutingRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A route, with the models that it leads to now; `remote` is empty where nothing leaves."""

    name: str
    local: str
    remote: str
    prefer: Literal["local", "cloud"]
    escalate: list[str]
    redact: str
    description: str


class RoutingState(msgspec.Struct, frozen=True, kw_only=True):
    """What is in force; `enabled` says whether anything can leave at all.

    `policy` is the path of its file, `policy_trouble` what is wrong with it: then nothing leaves.
    """

    offline: bool
    enabled: bool
    policy: str
    policy_exists: bool
    policy_trouble: str
    providers: list[RoutingProvider]
    routes: list[RoutingRoute]
    classes: dict[str, str]


class ExplainRequest(GenerationRequest, frozen=True, kw_only=True):
    """A `text` alone, or the body of a generation.

    With `override` a consent can be had for what holds something of the class `never`.
    """

    text: Annotated[str, Meta(max_length=2**26)] | None = None
    override: Literal["never"] | None = None
