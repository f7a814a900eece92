"""The cost of switching to another model, computed in advance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingle.daemon.client.model_types import LoadedModel, ModelEntry

from ..chats.message import Message
from ..text import number_format

MUCH = 5.0
"""Seconds from which the switch needs confirmation."""
_RESERVED = 2**30
_PRICE_OF_LOADING = 1.5e9
"""Bytes per second at which a model's file is read from a current disk."""


class ModelSwitchCost(NamedTuple):
    """The cost of switching to `target`; seconds are None if no rate is known.

    `needs_bytes` is 0 for a loaded model. `evicted` are the models that would be unloaded.
    """

    target: str
    tokens: int
    seconds: float | None
    needs_bytes: int
    evicted: tuple[str, ...]
    stays: str | None = None

    @property
    def needs_confirmation(self) -> bool:
        """Return whether the switch needs confirmation."""
        return bool(self.evicted) or (self.seconds or 0.0) > MUCH

    def sentence(self) -> str:
        """Return the cost in one sentence, "" if there is none."""
        parts: list[str] = []
        if self.tokens:
            time = "" if self.seconds is None else f", about {number_format.duration(self.seconds)}"
            parts.append(f"will prefill {number_format.counted(self.tokens, 'token')}{time}")
        if self.needs_bytes:
            parts.append(f"needs {number_format.size(self.needs_bytes)}")
        if not parts:
            return ""
        text = f"{self.target} {' and '.join(parts)}"
        if self.evicted:
            verb = "is" if len(self.evicted) == 1 else "are"
            return f"{text}; {', '.join(self.evicted)} {verb} unloaded."
        return f"{text}; {self.stays} stays warm." if self.stays else f"{text}."


def estimate_switch_cost(
    target: ModelEntry,
    *,
    current: str | None,
    loaded: Sequence[LoadedModel],
    tokens: int,
    rate: float | None,
    free_bytes: int | None,
) -> ModelSwitchCost:
    """Return the cost of `target` answering a chat of `tokens`; `rate` is prefill tokens per
    second.

    `free_bytes` of RAM are free now; if None, evictions cannot be predicted.
    """
    here = [model for model in loaded if model.state in ("ready", "starting")]
    warm = any(model.name == target.name for model in here)
    needs = 0 if warm or target.fit is None else target.fit.needs_bytes
    seconds = tokens / rate if rate and tokens else None
    if needs and seconds is not None:
        seconds += (target.size or 0) / _PRICE_OF_LOADING
    on_cpu = target.fit is None or target.fit.device == "cpu"
    others = [model for model in here if model.name != target.name]
    evicted = _evicted(others, needs, free_bytes, current) if on_cpu and free_bytes else ()
    names = [model.name for model in others]
    stays = current if current in names and current not in evicted else None
    return ModelSwitchCost(target.name, tokens, seconds, needs, evicted, stays)


def _evicted(
    others: Sequence[LoadedModel], needs: int, free_bytes: int | None, current: str | None
) -> tuple[str, ...]:
    """Return the idle models to evict, the current one last, as the daemon does."""
    missing = needs - ((free_bytes or 0) - _RESERVED)
    gone: list[str] = []
    for model in sorted(others, key=lambda model: model.name == current):
        if missing <= 0:
            break
        if not model.running:
            gone.append(model.name)
            missing -= model.weights_bytes + model.kv_bytes + model.compute_bytes
    return tuple(gone)


def prefill_rate(
    model: ModelEntry,
    messages: Sequence[Message],
    sizes: Mapping[str, int],
    loaded: Sequence[LoadedModel] = (),
) -> float | None:
    """Return prefill tokens per second of `model`, from the engine or answers in the chat.

    Another model's rate is scaled by the number of weights, in `sizes` by name.
    """
    rates: dict[str, float] = {}
    for message in messages:
        new = message.facts.prompt_tokens - message.facts.cached_tokens
        # A short prompt is too coarse a measurement.
        if message.facts.prompt_seconds > 0 and new >= 32:
            rates[message.model] = new / message.facts.prompt_seconds
    rates |= {held.name: held.prompt_rate for held in loaded if held.prompt_rate}
    if model.name in rates:
        return rates[model.name]
    for name, rate in reversed(rates.items()):
        if sizes.get(name) and model.parameters:
            return rate * sizes[name] / model.parameters
    return None


def view_tokens(messages: Sequence[Message]) -> int:
    """Return the tokens of a chat's path as last counted; 0 for an empty chat."""
    counted = [
        message.facts.prompt_tokens + message.facts.completion_tokens
        for message in messages
        if message.role == "assistant" and message.facts.prompt_tokens
    ]
    return counted[-1] if counted else 0
