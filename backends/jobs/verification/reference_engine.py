"""Chooses and opens the reference engine for a model."""

from __future__ import annotations

from ...base.errors import LoadFailed
from .scorer import Scorer
from .tolerances import ReferenceEngine
from .verified_model import VerifiedModel


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


def open_reference(
    model: VerifiedModel, against: ReferenceEngine, *, context: int, chunk: int
) -> Scorer:
    """Load the model into the reference engine; raises `LoadFailed`."""
    if against is ReferenceEngine.LLAMA_CPP:
        from .llama_scorer import LlamaScorer

        return LlamaScorer(model.path, context=context, chunk=chunk)
    from .transformers_scorer import TransformersScorer

    return TransformersScorer(model.path)
