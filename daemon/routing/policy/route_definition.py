"""A named way to an answer: which model here, which one elsewhere, and which of them first."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

import msgspec

from ..detectors.finding import Sensitivity

AUTO = "auto"
"""The route that is always there."""


class RedactMode(StrEnum):
    """Whether text may leave with placeholders: never, after a yes, or without being asked."""

    NEVER = "never"
    ASK = "ask"
    ALWAYS = "always"


VALUABLE_WORDS = ("think hard", "think carefully", "step by step")
"""What people write when a task is worth more than a quick answer."""

Prefer = Literal["local", "cloud"]
Escalation = Literal["uncertain", "valuable"]


class RouteDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One route; `local` and `cloud` are empty where the defaults serve.

    `cloud` is `provider/model`. One that prefers `local` goes to the cloud only where `escalate`
    says so: when the first `tokens` of the local answer surprised the model itself by more than
    `surprise` nats a token, or when the task is worth it (`valuable_words`, `valuable_length` in
    characters). `classes` are laid over the policy's. With `judge` a model that is loaded here is
    asked whether what would leave is private.
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
