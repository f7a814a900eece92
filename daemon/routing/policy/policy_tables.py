"""The structure of `policy.toml`, and the routes that it defines."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ..detectors.finding import Sensitivity
from .sensitivity_classes import DEFAULT_CLASSES

AUTO = "auto"
"""The route that always exists."""


class RedactMode(StrEnum):
    """Whether text may leave with placeholders: never, after consent, or without being asked."""

    NEVER = "never"
    ASK = "ask"
    ALWAYS = "always"


VALUABLE_WORDS = ("think hard", "think carefully", "step by step")
"""Phrases that mark a task as worth more than a quick answer."""

Prefer = Literal["privacy", "cost", "speed", "quality", "local", "cloud"]
Escalation = Literal["uncertain", "valuable"]


Words = tuple[Annotated[str, Meta(min_length=2, max_length=200)], ...]
Name = Annotated[str, Meta(max_length=4096)]


class RouteDefinitionTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table `[routes.NAME]`; missing keys are as in the default of `auto`."""

    description: Annotated[str, Meta(max_length=500, description="For lists; has no effect.")] = ""
    local: Annotated[Name, Meta(description="The local model; empty is the default model.")] = ""
    cloud: Annotated[
        Name, Meta(description="provider/model; empty is the first model of the first provider.")
    ] = ""
    prefer: Annotated[
        Prefer,
        Meta(
            description="Where requests that may leave are answered: privacy (or local) here, "
            "quality (or cloud) elsewhere, cost where it is cheaper, speed where it is faster."
        ),
    ] = "cloud"
    escalate: Annotated[
        tuple[Escalation, ...],
        Meta(
            description="When a request that would be answered here is sent elsewhere all the same."
        ),
    ] = ()
    redact: Annotated[
        RedactMode,
        Meta(description="Whether text may leave with placeholders: never, after consent, always."),
    ] = RedactMode.ASK
    classes: Annotated[
        dict[str, Sensitivity], Meta(description="Override the policy's; only stricter ones.")
    ] = {}
    override: Annotated[
        bool, Meta(description="Allow the classes of this route to be less strict, too.")
    ] = False
    tokens: Annotated[
        int,
        Meta(ge=1, le=256, description="The number of first tokens of an answer that are judged."),
    ] = 32
    surprise: Annotated[
        float, Meta(gt=0, le=20, description="Nats per token above which an answer is uncertain.")
    ] = 0.8
    valuable_words: Annotated[Words, Meta(description="Words that make a task valuable.")] = (
        VALUABLE_WORDS
    )
    valuable_length: Annotated[
        int, Meta(ge=1, description="Characters of a last message from which a task is valuable.")
    ] = 6000
    judge: Annotated[
        bool | Annotated[str, Meta(min_length=1, max_length=4096)],
        Meta(
            description="Ask a local model whether what would leave is private: true for the "
            "largest loaded one, or its name; what a named one does not call public stays here."
        ),
    ] = False


class RouteDefinition(RouteDefinitionTable, frozen=True, kw_only=True):
    """One route; `local` and `cloud` are empty for the defaults, `classes` override the policy's.

    `cloud` is `provider/model`. What `prefer` would answer here leaves only as `escalate` says: if
    the mean surprisal of the first `tokens` of the local answer exceeds `surprise` nats per token,
    or if the task is valuable (`valuable_words`, `valuable_length` in characters).
    """

    name: str


class PolicyTable(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    words: Annotated[
        Words, Meta(description="Your own words: text with one of them stays here.")
    ] = ()
    public_words: Annotated[
        Words, Meta(description="Words that are public: findings inside them are ignored.")
    ] = ()
    folders: Annotated[
        Words, Meta(description="Your own folders: text that names one of them stays here.")
    ] = ()
    least_certainty: Annotated[
        float, Meta(ge=0, le=1, description="Findings that are less certain are ignored.")
    ] = 0.5
    classes: Annotated[
        dict[str, Sensitivity], Meta(description="The class of a kind of finding.")
    ] = {}
    routes: Annotated[
        dict[str, RouteDefinitionTable],
        Meta(description="Names that can be used in place of a model's."),
    ] = {}


def policy_schema() -> dict[str, Any]:
    """Return a schema that is valid for a policy exactly if its keys and values are (draft
    2020-12).
    """
    schema = msgspec.json.schema(PolicyTable)
    kinds = sorted(DEFAULT_CLASSES)
    for definition in schema["$defs"].values():
        if definition.get("type") != "object":
            continue
        definition["additionalProperties"] = False
        if "classes" in definition["properties"]:
            definition["properties"]["classes"]["propertyNames"] = {"enum": kinds}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
