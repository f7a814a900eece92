"""What every head is that drafts from the hidden states of its model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ingle.kernels.operations import Operations

from ..config.model_config import KVHeads
from ..layers.attention import AttentionContext
from ..layers.parameters import Parameters
from ..layers.picture_input import PictureInput
from .head_files import HeadFiles

if TYPE_CHECKING:
    from ..layers.transformer import Transformer


class DraftHead(ABC):
    """Predicts the next but one token from features of its model at a token, and those after it."""

    watched: Sequence[int]
    """The layers of the model whose residual streams the features are made of."""
    most_drafts: int | None = None
    """How many tokens it can draft; None without a limit."""

    def __init__(self, files: HeadFiles, model: Transformer, parameters: Parameters) -> None:
        self.config = files.config
        """Its settings, as those of a model whose last layer it may be."""
        self.title = files.title
        """What kind of head it is."""
        self._model = model
        self._operations: Operations = parameters.operations
        self._parameters = parameters

    @property
    def kv_heads(self) -> Mapping[int, KVHeads]:
        """The key heads of its layers behind those of the model."""
        return {}

    def leave(self) -> None:
        """Leave the model's steps."""
        self._model.watch((), None)

    def join(self, receive: Callable[[Sequence[torch.Tensor]], None]) -> None:
        """Let each step of the model call `receive` with the streams behind `watched`."""
        self._model.watch(self.watched, receive)

    @property
    def weights_bytes(self) -> int:
        """Bytes of its weights, without those that it shares with the model."""
        return self._parameters.bytes

    @abstractmethod
    def features(self, residuals: Sequence[torch.Tensor]) -> torch.Tensor:
        """Features (tokens, width) of the residual streams behind the layers `watched`."""

    def token_ids(self, drafted: torch.Tensor) -> torch.Tensor:
        """The tokens of the model that columns of the logits (tokens,) stand for."""
        return drafted

    @abstractmethod
    def append(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
        pictures: PictureInput | None = None,
    ) -> None:
        """Compute the keys and values of tokens; `features` are those at the tokens before.

        Tokens of `pictures` have embeddings of their own.
        """

    @abstractmethod
    def step(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
        drafted: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `append`; returns the logits that follow, and the features at the tokens.

        `drafted` counts the tokens that were drafted before.
        """
