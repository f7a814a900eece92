"""Which engine a model can be compared with."""

from __future__ import annotations

from ...base.errors import LoadFailed
from .scorer import Scorer
from .tolerances import ReferenceEngine
from .verified_model import VerifiedModel


def choose_reference(subject: VerifiedModel, wanted: ReferenceEngine | None) -> ReferenceEngine:
    """What was asked for, else whatever reads such files; raises `LoadFailed` where it cannot."""
    is_folder = subject.path.is_dir()
    if wanted is None:
        return ReferenceEngine.TRANSFORMERS if is_folder else ReferenceEngine.LLAMA_CPP
    if wanted is ReferenceEngine.LLAMA_CPP and is_folder:
        raise LoadFailed(
            f"llama.cpp cannot read {subject.path.name}: it is a folder of safetensors.",
            hint="Compare with transformers: --against transformers.",
        )
    return wanted


def open_reference(
    subject: VerifiedModel, against: ReferenceEngine, *, context: int, chunk: int
) -> Scorer:
    """Load the model into the engine to compare with; raises `LoadFailed`."""
    if against is ReferenceEngine.LLAMA_CPP:
        from .llama_scorer import LlamaScorer

        return LlamaScorer(subject.path, context=context, chunk=chunk)
    from .transformers_scorer import TransformersScorer

    return TransformersScorer(subject.path)
