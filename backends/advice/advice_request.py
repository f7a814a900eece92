"""What advice is asked for, and what it may choose from."""

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
"""In words."""


@dataclass(frozen=True, kw_only=True)
class AdviceRequest:
    """A need and a task; `context` is 0 where any will do."""

    need: Need = "quality"
    task: Task = "chat"
    context: int = 0


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model that could be used.

    `exact`: its costs are told by its file, not guessed from its size. `runs_on_own`: ingle's own
    engine knows it. `plain` weights are no blocks, so that they can be quantised on load. `draft`
    is a smaller model that can guess for it.
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
    """Tokens a second that one answer of a model really made on this machine; `on_gpu` all of it.

    `tokens` were in the context, 0 where nobody counted.
    """

    name: str
    decode: float
    on_gpu: bool
    tokens: int = 0
