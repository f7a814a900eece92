"""Input of the advice: the user's need, the task, the candidate models and measured speeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..registry.model_costs import ModelCosts

Need = Literal["quality", "latency", "memory", "privacy", "batch"]
Task = Literal["chat", "code", "embed"]

NEEDS: dict[Need, str] = {
    "quality": "the best answers that still come at reading speed",
    "latency": "short waiting, as much quality as that leaves",
    "memory": "much for little memory",
    "privacy": "good answers without any help from elsewhere",
    "batch": "many requests at once",
}
"""Each need in words, for the user."""


@dataclass(frozen=True, kw_only=True)
class AdviceRequest:
    """A need and a task; `context` is in tokens, 0 if any length will do."""

    need: Need = "quality"
    task: Task = "chat"
    context: int = 0


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model that could be recommended.

    `exact` means that its costs come from its file rather than an estimate from its size.
    `runs_on_own` means that ingle's own engine supports it. `plain` weights are not in quantised
    blocks, so they can be quantised on load. `draft` names a smaller model that can draft tokens
    for it.
    """

    name: str
    costs: ModelCosts
    quantization: str = ""
    licence: str = ""
    chat: bool = True
    codes: bool = False
    embeds: bool = False
    installed: bool = False
    exact: bool = True
    runs_on_own: bool = True
    plain: bool = False
    draft: str | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredSpeed:
    """Tokens per second measured for one answer of a model on this machine.

    `on_gpu` means that all layers ran on the GPU. `tokens` is the context length, 0 if unknown.
    """

    name: str
    decode: float
    on_gpu: bool
    tokens: int = 0
