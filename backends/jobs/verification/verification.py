"""Runs two engines on the same tokens and weights, and compares their logits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ingle.models.config.model_config import ModelConfig
from ingle.models.gguf.gguf_header import read_header
from ingle.models.gguf.gguf_support import check_supported
from ingle.models.safetensors.model_folder import NF4, read_folder

from ...base.errors import BackendError, LoadFailed
from ...cuda.model_tokenizer import open_tokenizer
from ...text.tokenization.tokenizer import Tokenizer
from .logit_comparison import Comparison, NotNumbers, Statistics
from .messages import VerificationProgress, VerificationReport, VerificationSpec
from .scored_text import split_into_windows
from .scorer import Scorer, chunk_size
from .tolerances import ReferenceEngine, exceeded, limits_for

_LONGEST_WINDOW = 4096
_PLAIN = frozenset({"F32", "F16", "BF16"})


def verify(
    spec: VerificationSpec, send: Callable[[VerificationProgress], None]
) -> VerificationReport:
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
        engine = resources.enter_context(
            closing(EngineScorer(model.path, context=longest, chunk=chunk))
        )
        send(VerificationProgress(loading=against))
        reference = resources.enter_context(
            closing(open_reference(model.path, against, context=longest, chunk=chunk))
        )
        reading = PairedReading(engine, reference, chunk=chunk)
        total = sum(len(window) - 1 for window in windows)
        try:
            statistics = reading.compare(
                windows, lambda n: send(VerificationProgress(compared=n, total=total))
            )
        except NotNumbers as error:
            name = "ingle's own engine" if error.engine == "ingle" else against
            raise BackendError(
                f"The logits of {name} at position {error.position} are not numbers.",
                hint="The weights may be damaged: pull the model again.",
                code="not_numbers",
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


def choose_reference(model: VerifiedModel, wanted: ReferenceEngine | None) -> ReferenceEngine:
    """Return the requested reference, else the one for this file type; raises `LoadFailed` if it
    cannot read it.
    """
    is_folder = model.path.is_dir()
    if wanted is None:
        return ReferenceEngine.TRANSFORMERS if is_folder else ReferenceEngine.LLAMA_CPP
    if wanted is ReferenceEngine.LLAMA_CPP and is_folder:
        raise LoadFailed(
            f"llama.cpp cannot read {model.path.name}: it is a folder of safetensors.",
            hint="Compare with transformers: --against transformers.",
        )
    return wanted


def open_reference(path: Path, against: ReferenceEngine, *, context: int, chunk: int) -> Scorer:
    """Load the model into the reference engine; raises `LoadFailed`."""
    if against is ReferenceEngine.LLAMA_CPP:
        from .llama_scorer import LlamaScorer

        return LlamaScorer(path, context=context, chunk=chunk)
    from .transformers_scorer import TransformersScorer

    return TransformersScorer(path)


class PairedReading:
    """Logits of an engine and its reference, chunk by chunk, with the time each took.

    They never compute at the same time, so neither slows the other.
    """

    def __init__(self, engine: Scorer, reference: Scorer, *, chunk: int) -> None:
        """At most `chunk` logits rows are computed and kept at a time."""
        self._engine = engine
        self._reference = reference
        self._chunk = chunk
        self.seconds = 0.0
        self.reference_seconds = 0.0

    def compare(
        self, windows: Sequence[Sequence[int]], on_progress: Callable[[int], None]
    ) -> Statistics:
        """Compare the logits at every token but the last of each window.

        `on_progress` is called with the tokens compared. Raises `NotNumbers`.
        """
        comparison = Comparison()
        compared = 0
        for window in windows:
            self._engine.begin()
            self._reference.begin()
            for start in range(0, len(window) - 1, self._chunk):
                end = min(start + self._chunk, len(window) - 1)
                began = time.monotonic()
                reference = self._reference.read(window, start, end)
                turned = time.monotonic()
                logits = self._engine.read(window, start, end)
                self.reference_seconds += turned - began
                self.seconds += time.monotonic() - turned
                comparison.add(logits, reference, np.array(window[start + 1 : end + 1]))
                compared += end - start
                on_progress(compared)
        return comparison.statistics()


@dataclass(frozen=True)
class VerifiedModel:
    """A model of a family that ingle's own engine supports.

    `quantization` names the type of most weights; `is_quantized` says whether any are not plain
    floats.
    """

    path: Path
    config: ModelConfig
    quantization: str
    is_quantized: bool
    tokenizer: Tokenizer

    @property
    def bos(self) -> int | None:
        """Return the token that every text begins with, None without one."""
        tokenizer = self.tokenizer
        if not tokenizer.adds_bos:
            return None
        return tokenizer.encode("", add_special=True, parse_special=False)[0]

    def encode(self, text: str) -> list[int]:
        """Return the text's tokens, as a prompt begins."""
        return self.tokenizer.encode(text, add_special=True, parse_special=False)

    def text_of(self, token: int) -> str:
        """Return the token as text."""
        return self.tokenizer.token_bytes(token, special=True).decode("utf-8", "replace")


def open_verified_model(path: Path) -> VerifiedModel:
    """Check a model's files and read its vocabulary; raises `ModelError` or `LoadFailed`.

    Native code reads only files that passed the checks.
    """
    if path.is_dir():
        folder = read_folder(path)
        quantization = folder.quantization
        is_quantized = quantization == NF4 or folder.matrices is not None
    else:
        header = read_header(path)
        check_supported(header)
        quantization = header.quantization
        is_quantized = any(tensor.type not in _PLAIN for tensor in header.tensors)
    # PyTorch is the slowest import, and many files are refused before it is needed.
    from ...cuda.model_files import open_model

    config = open_model(path).config
    tokenizer = open_tokenizer(path, config.vocab_size)
    return VerifiedModel(path, config, quantization, is_quantized, tokenizer)
