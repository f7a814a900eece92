"""A decoder-only transformer of any family: token ids in, logits out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import torch

from ingle.kernels.elementwise.activations import Activations
from ingle.kernels.formats.repack import reads_dense
from ingle.kernels.kv_cache.kv_pages import KeyBias
from ingle.kernels.matmul.linear import LinearLayer
from ingle.kernels.operations import Operations

from ..config.model_config import ModelConfig
from ..families.family_registry import find_family
from ..weights.weights import Weights
from .attention import Attention, AttentionContext
from .decoder_block import DecoderBlock
from .latent_attention import LatentAttention
from .layer_input import LayerInputs
from .parameters import Parameters, RankPart, TokenEmbedding
from .picture_input import PictureInput
from .residual_streams import ResidualStreams, StreamBlock
from .rotary_embedding import RotaryEmbedding, RotaryTables

if TYPE_CHECKING:
    from ..parallel.layer_stages import LayerStage
    from ..parallel.rank_group import RankGroup


class Transformer:
    """A model with its weights on `device`, computed with `operations`.

    The residual stream is fp32 whatever the activation type: it is small, and some families exceed
    the range of fp16 there. `on_progress` is called with the share of tensors loaded so far. With
    the `part` of a rank, `config` and `weights` are those of this part, and with its `stage` those
    of its layers.
    Raises `InvalidModel` if a tensor is missing or does not fit, and `UnsupportedModel` for an
    unknown family or a tensor that no layer loads.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        *,
        device: torch.device,
        operations: Operations,
        on_progress: Callable[[float], None] | None = None,
        part: RankPart | None = None,
        stage: LayerStage | None = None,
    ) -> None:
        family = find_family(config.architecture)
        self.config = config
        self._operations = operations
        parameters = Parameters(
            weights, device=device, operations=operations, on_progress=on_progress, part=part
        )
        self.part, self._stage = part, stage
        size, vocab = config.hidden_size, config.vocab_size
        self._embedding: TokenEmbedding | None = None
        if stage is None or stage.has_table:
            scale = config.embedding_scale
            self._embedding = parameters.embedding("token_embd", vocab, size, scale)
        self._inputs: LayerInputs | None = None
        if config.layer_input_width:
            self._inputs = LayerInputs(config, parameters)
        self._streams: ResidualStreams | None = None
        if config.streams is not None:
            self._streams = ResidualStreams(config, config.streams, parameters)
        self._blocks: list[DecoderBlock] = []
        self._stream_blocks: list[StreamBlock] = []
        for layer in range(config.num_layers):
            block = DecoderBlock(layer, config, family, parameters)
            self._blocks.append(block)
            if config.streams is not None:
                around = StreamBlock(layer, config, config.streams, block, parameters)
                self._stream_blocks.append(around)
        self.output_norm = parameters.norm("output_norm", size, config.norm_epsilon)
        """The norm behind the last layer."""
        self._output: LinearLayer | None = None
        if stage is None or stage.is_last:
            tied = self._embedding if config.tied_embeddings else None
            self._output = (
                parameters.linear("output", vocab, size, of_tokens=True)
                if tied is None
                else LinearLayer(tied.weight)
            )
        parameters.check_all_taken()
        self.adapted = parameters.adapted
        """The linear layers that adapters can change, by their names."""
        self.weights_bytes = parameters.bytes
        """Bytes of the weights, before `operations` prepared them."""
        ropes = [layer.rope for layer in config.layers]
        kinds = list(dict.fromkeys(rope for rope in ropes if rope is not None))
        self._rotary = [RotaryEmbedding(operations, rope, config.context, device) for rope in kinds]
        self._rotary_of = [None if rope is None else kinds.index(rope) for rope in ropes]
        self._watched: Collection[int] = ()
        self._receive: Callable[[Sequence[torch.Tensor]], None] | None = None

    def watch(
        self, layers: Collection[int], receive: Callable[[Sequence[torch.Tensor]], None] | None
    ) -> None:
        """Let each forward pass call `receive` once all blocks are computed; None ends that.

        It gets the residual streams (tokens, hidden) fp32 behind each of `layers`, in their order.
        """
        self._watched, self._receive = layers, receive

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        attention: AttentionContext,
        output_rows: torch.Tensor,
        pictures: PictureInput | None = None,
    ) -> torch.Tensor:
        """Logits (rows, vocabulary) fp32 that follow the tokens at `output_rows` (rows,) int64.

        A rank other than the first returns those of its part of the vocabulary, and zeros if it has
        not the last layers.

        `token_ids` and `positions` are (tokens,), the sequences one after the other; those of
        `pictures` are negative.
        """
        if pictures is not None:
            token_ids = token_ids.clamp(min=0)
            positions = positions if pictures.positions is None else pictures.positions
        tables = [rotary(positions) for rotary in self._rotary]
        residual = self._before_layers(token_ids)
        if pictures is not None and len(pictures.rows):
            residual[pictures.rows] = pictures.embeddings
        inputs = None if self._inputs is None else self._inputs(token_ids, residual)
        turns = [None if kind is None else tables[kind] for kind in self._rotary_of]
        if self._streams is not None:
            residual = self._streams.apart(residual)
            for layer, (around, turn) in enumerate(zip(self._stream_blocks, turns, strict=True)):
                around(residual, turn, attention, None if inputs is None else inputs[:, layer])
            residual = self._streams.together(residual)
        else:
            self._compute(residual, turns, attention, inputs)
        if self._stage is not None and not self._stage.is_last:
            self._stage.ranks.send(residual)
            return residual.new_zeros(len(output_rows), self.config.vocab_size)
        if not len(output_rows):  # a part of a prompt; a kernel cannot be launched for no rows
            return residual.new_empty(0, self.config.vocab_size)
        return self._logits(residual[output_rows])

    def _compute(
        self,
        residual: torch.Tensor,
        turns: Sequence[RotaryTables | None],
        attention: AttentionContext,
        inputs: torch.Tensor | None,
    ) -> None:
        """Add all blocks to the residual stream, in place."""
        x: Activations | None = None
        # The last norm is of the output rows alone.
        following = [*(block.input_norm for block in self._blocks[1:]), None]
        layers = zip(self._blocks, turns, following, strict=True)
        seen: list[torch.Tensor] = []
        for layer, (block, turn, norm) in enumerate(layers):
            own = None if inputs is None else inputs[:, layer]
            x = block(residual, turn, attention, own, x, norm)
            if layer in self._watched:
                seen.append(residual.clone() if block is not self._blocks[-1] else residual)
        if self._receive is not None:
            self._receive(seen)

    def key_biases(self, count: int) -> list[KeyBias | None]:
        """The key bias of each layer with keys, or None, rotated for the first positions."""
        tables = [rotary.first(count) for rotary in self._rotary]
        biases: list[KeyBias | None] = []
        for block, kind in zip(self._blocks, self._rotary_of, strict=True):
            mixer = block.mixer
            if isinstance(mixer, LatentAttention):
                biases.append(None)
            if not isinstance(mixer, Attention) or not mixer.has_keys:
                continue
            bias = mixer.key_bias
            if bias is not None:
                unmoved = bias.new_empty(count, 0)
                cosine, sine = (unmoved, unmoved) if kind is None else tables[kind][:2]
                biases.append(KeyBias(bias, cosine, sine))
            else:
                biases.append(None)
        return biases

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Scaled embeddings (tokens, hidden) fp32."""
        assert self._embedding is not None, "another rank has the embeddings"
        return self._embedding(token_ids)

    def _before_layers(self, token_ids: torch.Tensor) -> torch.Tensor:
        if self._stage is None or self._stage.is_first:
            return self.embed(token_ids)
        size, device = self.config.hidden_size, token_ids.device
        residual = torch.empty(len(token_ids), size, dtype=torch.float32, device=device)
        self._stage.ranks.receive(residual)
        return residual

    @property
    def whole(self) -> ModelConfig:
        """The settings of the model that this is a part of, or of itself."""
        if self._stage is not None:
            return self._stage.whole
        return self.config if self.part is None else self.part.shard.whole

    @property
    def ranks(self) -> RankGroup | None:
        """Those that the model is computed with, of which this process is one."""
        owner = self.part or self._stage
        return None if owner is None else owner.ranks

    def _logits(self, rows: torch.Tensor) -> torch.Tensor:
        assert self._output is not None, "another rank has the output"
        if reads_dense(self._output.weight):
            return self.project(self.output_norm.as_tensor(rows))
        return self._project(self.output_norm(rows))

    def project(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits (rows, vocabulary) fp32 of normalised rows of the activation type."""
        assert self._output is not None, "another rank has the output"
        if reads_dense(self._output.weight):
            return self._project(Activations(rows.shape[-1], rows))
        return self._project(self._operations.activations(rows))

    def _project(self, x: Activations) -> torch.Tensor:
        assert self._output is not None, "another rank has the output"
        (logits,) = self._operations.linear(x, self._output, dtype=torch.float32)
        if self.part is not None:
            logits = self.part.ranks.join_columns(logits, self.part.shard.whole.vocab_size)
        if self.config.logit_scale != 1.0:
            logits = logits * self.config.logit_scale
        cap = self.config.final_soft_cap
        return logits if cap is None else torch.tanh(logits / cap) * cap
