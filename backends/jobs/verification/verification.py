"""Runs two engines on the same tokens and weights, and compares their logits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from ...base.errors import BackendError
from .logit_comparison import NotNumbers, Statistics
from .messages import Message, VerificationProgress, VerificationReport, VerificationSpec
from .paired_reading import PairedReading
from .reference_engine import choose_reference, open_reference
from .scored_text import split_into_windows
from .scorer import Scorer, chunk_size
from .tolerances import ReferenceEngine, exceeded, limits_for
from .verified_model import VerifiedModel, open_verified_model

_LONGEST_WINDOW = 4096


class NothingToCompare(BackendError):
    """One of the engines computed no distribution."""

    code = "not_numbers"


def verify(spec: VerificationSpec, send: Callable[[Message], None]) -> VerificationReport:
    """Compare as `spec` says; progress goes through `send`.

    Raises `BackendError` or `ModelError` if there is nothing to compare.
    """
    with ExitStack() as resources:
        model = open_verified_model(Path(spec.path))
        against = choose_reference(model, spec.against)
        windows = split_into_windows(
            model.encode(spec.text),
            tokens=spec.tokens,
            context=min(model.config.context, _LONGEST_WINDOW),
            bos=model.bos,
        )
        longest, chunk = max(map(len, windows)), chunk_size(model.config.vocab_size)
        from .engine_scorer import EngineScorer  # PyTorch is slow to import, and may not be needed

        send(VerificationProgress(loading="ingle"))
        engine = EngineScorer(model.path, context=longest, chunk=chunk)
        resources.callback(engine.close)
        send(VerificationProgress(loading=against))
        reference = open_reference(model, against, context=longest, chunk=chunk)
        resources.callback(reference.close)
        reading = PairedReading(engine, reference, chunk=chunk)
        total = sum(len(window) - 1 for window in windows)
        try:
            statistics = reading.compare(
                windows, lambda n: send(VerificationProgress(compared=n, total=total))
            )
        except NotNumbers as error:
            who = "ingle's own engine" if error.engine == "ingle" else against
            raise NothingToCompare(
                f"The logits of {who} at position {error.position} are not numbers.",
                hint="The weights may be damaged: pull the model again.",
            ) from error
        return _report(model, against, engine, reading, statistics, longest)


def _report(
    model: VerifiedModel,
    against: ReferenceEngine,
    engine: Scorer,
    reading: PairedReading,
    statistics: Statistics,
    context: int,
) -> VerificationReport:
    limits = limits_for(against, quantized=model.is_quantized)
    first = statistics.first_divergence
    choices = (first.token, first.reference_token) if first is not None else None
    return VerificationReport(
        architecture=model.config.architecture,
        quantization=model.quantization,
        device=engine.device,
        against=against,
        context=context,
        statistics=statistics,
        first_choices=choices and (model.text_of(choices[0]), model.text_of(choices[1])),
        seconds=reading.seconds,
        reference_seconds=reading.reference_seconds,
        limits=limits,
        failures=exceeded(statistics, limits),
    )
