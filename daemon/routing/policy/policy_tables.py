"""The shape of `policy.toml`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ..detectors.finding import Sensitivity
from .route_definition import VALUABLE_WORDS, Escalation, Prefer, RedactMode

Words = tuple[Annotated[str, Meta(min_length=2, max_length=200)], ...]
Name = Annotated[str, Meta(max_length=4096)]


class RouteDefinitionTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table `[routes.NAME]`; what it leaves out is as in `auto`'s default."""

    description: Annotated[str, Meta(max_length=500, description="For lists; changes nothing.")] = (
        ""
    )
    local: Annotated[Name, Meta(description="The model here; empty is the default model.")] = ""
    cloud: Annotated[
        Name, Meta(description="provider/model; empty is the first model of the first provider.")
    ] = ""
    prefer: Annotated[Prefer, Meta(description="Where harmless requests are answered.")] = "cloud"
    escalate: Annotated[
        tuple[Escalation, ...],
        Meta(description="When a route that prefers local goes to the cloud all the same."),
    ] = ()
    redact: Annotated[
        RedactMode,
        Meta(description="Whether text may leave with placeholders: never, after a yes, always."),
    ] = RedactMode.ASK
    classes: Annotated[
        dict[str, Sensitivity], Meta(description="Laid over the policy's; only stricter ones.")
    ] = {}
    override: Annotated[
        bool, Meta(description="Let the classes of this route be less strict, too.")
    ] = False
    tokens: Annotated[
        int, Meta(ge=1, le=256, description="So many tokens of an answer are judged at first.")
    ] = 32
    surprise: Annotated[
        float, Meta(gt=0, le=20, description="Nats a token from which an answer is uncertain.")
    ] = 0.8
    valuable_words: Annotated[Words, Meta(description="What makes a task valuable.")] = (
        VALUABLE_WORDS
    )
    valuable_length: Annotated[
        int, Meta(ge=1, description="Characters of a last message from which a task is valuable.")
    ] = 6000
    judge: Annotated[
        bool, Meta(description="Ask a loaded model whether what would leave is private.")
    ] = False


class PolicyTable(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    words: Annotated[
        Words, Meta(description="Your own words: what has one of them stays here.")
    ] = ()
    folders: Annotated[
        Words, Meta(description="Your own folders: what names one of them stays here.")
    ] = ()
    least_certainty: Annotated[
        float, Meta(ge=0, le=1, description="Findings that are less certain do not count.")
    ] = 0.5
    classes: Annotated[
        dict[str, Sensitivity], Meta(description="The class of a kind of finding.")
    ] = {}
    routes: Annotated[
        dict[str, RouteDefinitionTable],
        Meta(description="Names that may stand in the place of a model's."),
    ] = {}
