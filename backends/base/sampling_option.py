"""`SamplingOption`: one row of the table of sampling options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Bounds = tuple[float, float]

LARGEST = 2**31 - 1
TINY = 1e-6


@dataclass(frozen=True, kw_only=True)
class SamplingOption:
    """A number that a request may set, named as the field of `SamplingParams` that it annotates.

    OpenAI's and ingle's own protocols reject a value outside of `bounds`; the lower one is allowed
    unless it is `exclusive`. llama-server and Ollama clamp a value to their own bounds:
    `llama_bounds` (None: `bounds`) and `ollama_bounds` (None: Ollama has no such option).
    """

    bounds: Bounds
    exclusive: bool = False
    is_integer: bool = False
    off: float | None = None
    """The value with which the option has no effect; None for a detail of another option."""
    is_off_below_zero: bool = False
    """Whether zero and negative values are off, too."""
    detail_of: str | None = None
    """The option without which this one has no effect."""
    llama_bounds: Bounds | None = None
    ollama_bounds: Bounds | None = None
    llama_sampler: str | None = None
    """llama-server's name in `samplers` of the step that the option belongs to."""
    stage: Literal["adjust", "draw"] = "draw"
    """Whether it changes logits by earlier tokens, or how the next token is drawn from them."""
    in_chat: bool = False
    """Whether the chat offers it; programs may set every option."""
    description: str = ""

    def clamp_bounds(self) -> Bounds:
        """Return the bounds to which llama-server clamps a value."""
        return self.llama_bounds or self.bounds

    def is_active(self, value: float) -> bool:
        """Return whether this value has an effect by itself; never for a detail."""
        if self.off is None or value == self.off:
            return False
        return value > 0 or not self.is_off_below_zero
