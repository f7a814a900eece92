"""A model runner as a worker holds it: with its tokenizer."""

from __future__ import annotations

from typing import Protocol

from ..base.model_info import ModelInfo
from ..text.prompts.picture_prompt import PictureEncoder
from ..text.tokenization.tokenizer import Tokenizer
from .model_runner import ModelRunner
from .speculation.model_drafter import DraftRunner


class LocalRunner(ModelRunner, Protocol):
    """A runner with its tokenizer and the facts about the loaded model."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    @property
    def pictures(self) -> PictureEncoder | None:
        """The picture encoder, None for a model that reads text only."""
        ...

    def info(self) -> ModelInfo:
        """The facts about the loaded model."""
        ...


class LocalDraftRunner(LocalRunner, DraftRunner, Protocol):
    """The runner of a draft model."""
