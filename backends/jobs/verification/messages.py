"""Messages of the verification process: its spec, progress and report, one JSON object per line."""

from __future__ import annotations

import msgspec

from .logit_comparison import Statistics
from .tolerances import ReferenceEngine, Tolerances


class VerificationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Verify the model at `path` on the first `tokens` of `text` (None: all).

    `against` None chooses by file: llama.cpp for GGUF, transformers for safetensors.
    """

    path: str
    text: str
    tokens: int | None = None
    against: ReferenceEngine | None = None


class VerificationProgress(msgspec.Struct, frozen=True, tag="progress"):
    """The engine that is being loaded, else the number of tokens compared of `total`."""

    loading: str | None = None
    compared: int = 0
    total: int = 0


class VerificationReport(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """The result.

    `context` is the longest window, `first_choices` are the texts of the two tokens where greedy
    choices first differ, ours first. Seconds are of computing, not loading. `failures` names the
    statistics outside their `limits`.
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
