"""The interface of heads that draft, and of the model that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

import torch

from ingle.kernels.elementwise.activations import Activations

from ..config.model_config import ModelConfig
from ..layers.attention import AttentionContext
from ..layers.parameters import RMSNorm

Receive = Callable[[Sequence[torch.Tensor]], None]
"""Takes residual streams of one forward pass; they are valid during the call alone."""


class HeadedModel(Protocol):
    """What a head needs of its model, see `Transformer`."""

    config: ModelConfig
    output_norm: RMSNorm

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Scaled embeddings (tokens, hidden) fp32."""
        ...

    def project(self, x: Activations) -> torch.Tensor:
        """Logits (rows, vocabulary) fp32 of normalised rows."""
        ...

    def watch(self, layers: Collection[int], receive: Receive | None) -> None:
        """Let each forward pass call `receive`; None ends that."""
        ...


class DraftHead(Protocol):
    """A layer that predicts the next but one token from features of its model.

    Its input is a token, and the features at the token before it; those of a drafted token are what
    the head itself computed. Keys and values of a token depend on the tokens up to it alone, so
    that pages of a prefix can be shared with them.
    """

    config: ModelConfig
    """Its settings, as those of a model whose last layer it is."""
    layer: int
    """The layer that its keys and values belong to, behind those of the model."""
    title: str
    """What kind of head it is."""

    @property
    def weights_bytes(self) -> int:
        """Bytes of its weights, without those that it shares with the model."""
        ...

    def join(self, receive: Receive) -> None:
        """Let each step of the model call `receive` with what `features` takes."""
        ...

    def leave(self) -> None:
        """Undo `join`."""
        ...

    def features(self, residuals: Sequence[torch.Tensor]) -> torch.Tensor:
        """Features (tokens, width) of the model at some tokens."""
        ...

    def append(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
    ) -> None:
        """Compute the keys and values of tokens; `features` are those at the tokens before."""
        ...

    def step(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `append`; returns the logits that follow, fp32, and the features at the tokens."""
        ...

    def token_ids(self, drafted: torch.Tensor) -> torch.Tensor:
        """The tokens of the model that columns of the logits (rows,) stand for."""
        ...
