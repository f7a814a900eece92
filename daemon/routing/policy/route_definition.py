"""A named route: its local model, its remote model, and which of them is preferred."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

import msgspec

from ..detectors.finding import Sensitivity

AUTO = "auto"
"""The route that always exists."""


class RedactMode(StrEnum):
    """Whether text may leave with placeholders: never, after consent, or without being asked."""

    NEVER = "never"
    ASK = "ask"
    ALWAYS = "always"


VALUABLE_WORDS = ("think hard", "think carefully", "step by step")
"""Phrases that mark a task as worth more than a quick answer."""

Prefer = Literal["local", "cloud"]
Escalation = Literal["uncertain", "valuable"]


class RouteDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One route; `local` and `cloud` are empty to use the defaults.

    `cloud` is `provider/model`. A route that prefers `local` uses the cloud only as `escalate`
    says: if the mean surprisal of the first `tokens` of the local answer exceeds `surprise` nats
    per token, or if the task is valuable (`valuable_words`, `valuable_length` in characters).
    `classes` override the policy's. With `judge` a loaded model is asked whether what would leave
    is private.
    """

    name: str
    description: str = ""
    local: str = ""
    cloud: str = ""
    prefer: Prefer = "cloud"
    escalate: tuple[Escalation, ...] = ()
    redact: RedactMode = RedactMode.ASK
    classes: Mapping[str, Sensitivity] = MappingProxyType({})
    tokens: int = 32
    surprise: float = 0.8
    valuable_words: tuple[str, ...] = VALUABLE_WORDS
    valuable_length: int = 6000
    judge: bool = False
