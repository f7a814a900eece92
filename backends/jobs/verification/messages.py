"""What the process that verifies a model is told, and what it tells: one JSON object a line."""

from __future__ import annotations

import msgspec

from .logit_comparison import Statistics
from .tolerances import ReferenceEngine, Tolerances

MAX_TEXT_BYTES = 1 << 26
"""The longest text that is sent along."""


class VerificationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to verify: the model at `path`, reading `text`, the first `tokens` of it (None: all).

    `against` None takes what can read the model: llama.cpp for GGUF, transformers for safetensors.
    """

    path: str
    text: str
    tokens: int | None = None
    against: ReferenceEngine | None = None


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """How far it is: what is `loading`, else how many of `total` tokens are compared."""

    loading: str | None = None
    compared: int = 0
    total: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """What came out.

    `context` is the longest stretch that was read at once, `first_choices` are the texts of the
    two tokens where greedy choices first differ, ours first. Seconds are those of computing, not
    of loading. `failures` names the statistics out of their `limits`.
    """

    architecture: str
    quantization: str
    device: str
    against: str
    context: int
    statistics: Statistics
    first_choices: tuple[str, str] | None
    seconds: float
    reference_seconds: float
    limits: Tolerances
    failures: list[str]


Message = Progress | Report
