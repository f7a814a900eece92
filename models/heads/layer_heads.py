"""Heads that draft with one decoder layer: those of MTP and of EAGLE-3.

Source: the technical report of DeepSeek-V3, section 2.2; "EAGLE-3", arXiv 2503.01840.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.operations import Operations

from ..config.model_config import KVHeads
from ..families.family_registry import find_family
from ..layers.attention import AttentionContext
from ..layers.decoder_block import DecoderBlock
from ..layers.parameters import Parameters
from ..layers.picture_input import PictureInput
from ..layers.rotary_embedding import RotaryEmbedding, RotaryTables
from .draft_head import DraftHead
from .eagle_files import EagleFiles
from .head_files import HeadFiles
from .medusa_head import MedusaFiles, MedusaHead

if TYPE_CHECKING:
    from ..layers.transformer import Transformer


class LayerHead(DraftHead):
    """A decoder block that predicts the next but one token from features of its model.

    Its input is a token, and the features at the token before it; those of a drafted token are what
    the head itself computed. Keys and values of a token depend on the tokens up to it alone, so
    that pages of a prefix can be shared with them.
    """

    def __init__(
        self, files: HeadFiles, model: Transformer, parameters: Parameters, device: torch.device
    ) -> None:
        super().__init__(files, model, parameters)
        config = files.config
        self.layer = config.num_layers - 1
        """The layer that its keys and values belong to, behind those of the model."""
        self._block = DecoderBlock(self.layer, config, find_family(config.architecture), parameters)
        rope = config.layers[self.layer].rope
        self._rotary = (
            None
            if rope is None
            else RotaryEmbedding(self._operations, rope, model.config.context, device)
        )

    @property
    def kv_heads(self) -> Mapping[int, KVHeads]:
        """See `DraftHead`."""
        return {self.layer: self.config.kv_heads_of(self.layer)}

    @abstractmethod
    def _embedded(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Embeddings (tokens, width) fp32."""

    @abstractmethod
    def _begin(
        self, embedded: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, Activations]:
        """The residual stream (tokens, width) fp32, and what attention reads."""

    @abstractmethod
    def _end(self, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (tokens, vocabulary) fp32, and the features of the next tokens."""

    def append(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
        pictures: PictureInput | None = None,
    ) -> None:
        """See `DraftHead`."""
        mixer = self._block.mixer
        assert mixer is not None
        embedded = self._embedded(token_ids)
        if pictures is not None and pictures.embeddings.shape[1] == embedded.shape[1]:
            embedded[pictures.rows] = pictures.embeddings
        mixer(self._begin(embedded, features)[1], self._turns(positions), context)

    def step(
        self,
        token_ids: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        context: AttentionContext,
        drafted: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `DraftHead`."""
        del drafted
        residual, x = self._begin(self._embedded(token_ids), features)
        self._block(residual, self._turns(positions), context, None, x)
        return self._end(residual)

    def _turns(self, positions: torch.Tensor) -> RotaryTables | None:
        return None if self._rotary is None else self._rotary(positions)


class MTPHead(LayerHead):
    """Projects a token's embedding and the normalised hidden state of the one before together."""

    def __init__(
        self, files: HeadFiles, model: Transformer, *, device: torch.device, operations: Operations
    ) -> None:
        """Load it; raises as `Transformer`."""
        parameters = Parameters(files.weights, device=device, operations=operations)
        super().__init__(files, model, parameters, device)
        config, name = files.config, f"blk.{self.layer}.nextn"
        size, epsilon = config.hidden_size, config.norm_epsilon
        self.watched = (model.config.num_layers - 1,)
        self._token_norm = parameters.norm(f"{name}.enorm", size, epsilon)
        self._state_norm = parameters.norm(f"{name}.hnorm", size, epsilon)
        self._join = parameters.linear(f"{name}.eh_proj", size, 2 * size)
        self._norm = model.output_norm
        if parameters.has(f"{name}.shared_head_norm.weight"):
            self._norm = parameters.norm(f"{name}.shared_head_norm", size, epsilon)
        parameters.check_all_taken()

    def features(self, residuals: Sequence[torch.Tensor]) -> torch.Tensor:
        """What the model's output layer reads."""
        return self._model.output_norm.as_tensor(residuals[0])

    def _embedded(self, token_ids: torch.Tensor) -> torch.Tensor:
        return self._model.embed(token_ids)

    def _begin(
        self, embedded: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, Activations]:
        token = self._token_norm.as_tensor(embedded)
        both = torch.cat((token, self._state_norm.as_tensor(features)), -1)
        (residual,) = self._operations.linear(
            self._operations.activations(both), self._join, dtype=torch.float32
        )
        norm = self._block.input_norm
        assert norm is not None
        return residual, norm(residual)

    def _end(self, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self._norm.as_tensor(residual)
        return self._model.project(features), features


class EagleHead(LayerHead):
    """Attends with a token's embedding beside features of three residual streams of the model.

    Its vocabulary may be a part of the model's.
    """

    def __init__(
        self, files: EagleFiles, model: Transformer, *, device: torch.device, operations: Operations
    ) -> None:
        """Load it; raises as `Transformer`."""
        parameters = Parameters(files.weights, device=device, operations=operations)
        super().__init__(files, model, parameters, device)
        config, settings = files.config, files.settings
        size, epsilon = config.hidden_size, config.norm_epsilon
        width = settings.target_size * len(files.streams)
        self.watched = tuple(stream - 1 for stream in files.streams)
        self._norms_residual = settings.norm_before_residual
        self._input_norm = None
        if parameters.has("input_norm.weight"):
            self._input_norm = parameters.norm("input_norm", width, epsilon)
        self._join = parameters.linear("fc", size, width)
        self._features_norm = parameters.norm(f"blk.{self.layer}.hidden_norm", size, epsilon)
        self._norm = parameters.norm("output_norm", size, epsilon)
        self._output = parameters.linear("output", len(files.token_ids), size)
        self._embed, self._last_token = model.embed, model.config.vocab_size - 1
        if parameters.has("token_embd.weight"):
            self._embed = parameters.embedding("token_embd", config.vocab_size, size, 1.0)
            self._last_token = config.vocab_size - 1
        self._token_ids = files.token_ids.to(device)
        parameters.check_all_taken()

    def features(self, residuals: Sequence[torch.Tensor]) -> torch.Tensor:
        """A projection of the residual streams together."""
        rows, operations = torch.cat(list(residuals), -1), self._operations
        x = operations.activations(rows) if self._input_norm is None else self._input_norm(rows)
        return operations.linear(x, self._join)[0]

    def token_ids(self, drafted: torch.Tensor) -> torch.Tensor:
        """See `DraftHead`."""
        return self._token_ids[drafted]

    def _embedded(self, token_ids: torch.Tensor) -> torch.Tensor:
        # Its vocabulary may lack the last tokens of the model's, which only fill that up.
        return self._embed(token_ids.clamp(max=self._last_token))

    def _begin(
        self, embedded: torch.Tensor, features: torch.Tensor
    ) -> tuple[torch.Tensor, Activations]:
        norm = self._block.input_norm
        assert norm is not None
        known = self._features_norm.as_tensor(features)
        both = torch.cat((norm.as_tensor(embedded), known), -1)
        residual = (known if self._norms_residual else features).to(torch.float32, copy=True)
        return residual, self._operations.activations(both)

    def _end(self, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        operations = self._operations
        (logits,) = operations.linear(self._norm(residual), self._output, dtype=torch.float32)
        return logits, residual.to(operations.dtype)


def load_head(
    files: HeadFiles, model: Transformer, *, device: torch.device, operations: Operations
) -> DraftHead:
    """The head of a loaded model; raises as `Transformer`."""
    if isinstance(files, MedusaFiles):
        return MedusaHead(files, model, device=device, operations=operations)
    if isinstance(files, EagleFiles):
        return EagleHead(files, model, device=device, operations=operations)
    return MTPHead(files, model, device=device, operations=operations)
