"""The task of a model: generate text, embed it, rank it, or recognise speech."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gguf.gguf_header import GGUFHeader

ENCODERS = frozenset(
    {
        *("bert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3"),
        *("modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe"),
    }
)
"""Architectures with bidirectional attention, which have no KV cache."""
# Classifiers with the labels "yes" and "no", of which the first is the score.
_YES_OR_NO = frozenset({"qwen3", "qwen3vl"})


class ModelTask(StrEnum):
    """The tasks that a request may ask for."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"
    TRANSCRIBE = "transcribe"
    """Recognise speech, which an engine of its own does."""


class Pooling(StrEnum):
    """How token vectors become one vector; `rank` ends in a classifier's score."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"
    RANK = "rank"


# As `{architecture}.pooling_type` numbers them; 0 is one vector a token.
_NUMBERS = {1: Pooling.MEAN, 2: Pooling.CLS, 3: Pooling.LAST, 4: Pooling.RANK}


def task_of(header: GGUFHeader) -> ModelTask:
    """The task that the model was trained for, from its header."""
    pooling = declared_pooling(header)
    classifies_texts = any(tensor.name.startswith("cls.") for tensor in header.tensors)
    if pooling is Pooling.RANK or (pooling is None and classifies_texts):
        return ModelTask.RERANK
    if pooling is not None or not is_causal(header):
        return ModelTask.EMBED
    return ModelTask.GENERATE


def is_encoder(header: GGUFHeader) -> bool:
    """Whether the model has no KV cache, so that a text must be computed in one batch."""
    return header.architecture in ENCODERS


def is_causal(header: GGUFHeader) -> bool:
    """Whether a token sees only those before it."""
    declared = header.metadata.get(f"{header.architecture}.attention.causal")
    return not is_encoder(header) and declared is not False


def declared_pooling(header: GGUFHeader) -> Pooling | None:
    """The pooling that the file declares, or None."""
    return _NUMBERS.get(header.integer("pooling_type") or 0)


def choose_pooling(header: GGUFHeader, task: ModelTask) -> Pooling:
    """The declared pooling, else the usual one of such models."""
    if task is ModelTask.RERANK:
        return Pooling.RANK
    return declared_pooling(header) or (Pooling.LAST if is_causal(header) else Pooling.MEAN)


def classifies(header: GGUFHeader) -> bool:
    """Whether the classifier returns a class instead of one score."""
    labels = header.arrays.get(f"{header.architecture}.classifier.output_labels")
    return labels is not None and labels[1] > (2 if header.architecture in _YES_OR_NO else 1)
