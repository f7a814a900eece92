"""Which engine a model can be compared with."""

from __future__ import annotations

from ...base.errors import LoadFailed
from .scorer import Scorer
from .tolerances import Against
from .verified_model import Subject


def choose_reference(subject: Subject, wanted: Against | None) -> Against:
    """What was asked for, else whatever reads such files; raises `LoadFailed` where it cannot."""
    is_folder = subject.path.is_dir()
    if wanted is None:
        return Against.TRANSFORMERS if is_folder else Against.LLAMA_CPP
    if wanted is Against.LLAMA_CPP and is_folder:
        raise LoadFailed(
            f"llama.cpp cannot read {subject.path.name}: it is a folder of safetensors.",
            hint="Compare with transformers: --against transformers.",
        )
    return wanted


def open_reference(subject: Subject, against: Against, *, context: int, chunk: int) -> Scorer:
    """Load the model into the engine to compare with; raises `LoadFailed`."""
    if against is Against.LLAMA_CPP:
        from .llama_scorer import LlamaScorer

        return LlamaScorer(subject.path, context=context, chunk=chunk)
    from .transformers_scorer import TransformersScorer

    return TransformersScorer(subject.path)
