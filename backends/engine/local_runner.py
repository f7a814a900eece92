"""A model runner as a worker holds it: with the text that its tokens stand for."""

from __future__ import annotations

from typing import Protocol

from ..base.model_info import ModelInfo
from ..text.tokenization.tokenizer import Tokenizer
from .model_runner import ModelRunner
from .speculation.model_drafter import DraftRunner


class LocalRunner(ModelRunner, Protocol):
    """A runner that brings its tokenizer and knows what it got."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    def info(self) -> ModelInfo:
        """What the model really got."""
        ...


class LocalDraftRunner(LocalRunner, DraftRunner, Protocol):
    """The runner of a smaller model that guesses for another one."""
