"""The interface of a loaded model that computes vectors or scores of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ingle.models.model_task import ModelTask

from ..base.model_info import ModelInfo
from ..text.tokenization.encoder_inputs import EmbeddingInputs, TextPairs


class TextEncoder(Protocol):
    """A loaded model that computes batches of texts; tokens in, one row of numbers each out."""

    task: ModelTask
    """To embed or to rank."""
    width: int
    """Numbers in a row."""
    batch_tokens: int
    """Tokens of a batch of several texts; one text alone may have more."""
    batch_texts: int
    """Texts in a batch."""

    def compute(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        """Rows for the texts, in order."""
        ...

    def text_inputs(self) -> EmbeddingInputs:
        """What makes the tokens of a text to embed."""
        ...

    def text_pairs(self) -> TextPairs:
        """What makes the tokens of a document to rank."""
        ...


class LocalTextEncoder(TextEncoder, Protocol):
    """A text encoder as a worker holds it."""

    def info(self) -> ModelInfo:
        """Return the facts about the loaded model."""
        ...

    def close(self) -> None:
        """Free weights and buffers."""
        ...
