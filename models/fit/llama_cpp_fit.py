"""How much memory a model takes on llama.cpp, worked out from its shape alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass

from ..errors import UnsupportedModel
from ..gguf.gguf_header import GGUFHeader
from ..kv_type import KVType
from ..model_task import ModelTask
from .memory_needs import MemoryNeeds
from .model_shape import LayerShape, ModelShape
from .process_overhead import GPU_PROCESS, GPU_PROCESS_HOST, LLAMA_PROCESS, vocabulary_bytes

DEFAULT_SLOTS = 8
DEFAULT_BATCH = 512
DRAFT_BATCH = 256
"""The batch of a draft model, which prefills few tokens at a time."""
KEPT_SLOTS = 16
"""Cache slots beside those of running requests, for conversations that may continue."""
KEPT_STATES = 4
"""As many, where each of them is memory of its own: in models with a running state."""
_SMALLEST_DEFAULT = 512
_CONTEXT_STEP = 256  # llama.cpp pads the KV cache to this
_KEPT_BY_LIBC = 32 * 2**20
EMBEDDING_SLOTS = 64
"""Texts that an embedding model takes in one batch."""

_FLOAT = 4


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes a loaded model takes of one kind of memory.

    `runtime` is what the process and its libraries take whatever they run, and the vocabulary.
    `reclaimable` bytes stay in memory as well, but are of no further use: pages of the file whose
    weights were laid out anew. The system takes them back when it needs them.
    """

    weights: int = 0
    kv: int = 0
    compute: int = 0
    runtime: int = 0
    reclaimable: int = 0

    @property
    def total(self) -> int:
        """All that is needed."""
        return self.weights + self.kv + self.compute + self.runtime

    @property
    def resident(self) -> int:
        """All bytes in memory, including reclaimable ones."""
        return self.total + self.reclaimable


def total_of(estimates: Iterable[MemoryEstimate]) -> MemoryEstimate:
    """What several processes take together; of a file, each has pages of its own."""
    return MemoryEstimate(*map(sum, zip(*map(astuple, estimates), strict=True)))


@dataclass(frozen=True, slots=True)
class GPUSplit:
    """The part of a model on a GPU.

    `gpu_layers` are counted as llama.cpp does: the output is the first, then come the last blocks.
    The experts of the first `cpu_experts` blocks stay in the machine's memory all the same.
    """

    gpu_layers: int = 0
    cpu_experts: int = 0


@dataclass(frozen=True, slots=True)
class SplitEstimate:
    """The memory of a model on the host, on the GPU, and on the others of a divided one."""

    host: MemoryEstimate
    gpu: MemoryEstimate
    other_gpus: tuple[MemoryEstimate, ...] = ()

    @property
    def needs(self) -> MemoryNeeds:
        """The sums."""
        others = tuple(each.total for each in self.other_gpus)
        return MemoryNeeds(self.host.total, self.gpu.total, others)

    @property
    def gpus(self) -> tuple[MemoryEstimate, ...]:
        """That of each GPU."""
        return self.gpu, *self.other_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadParameters:
    """How a model is loaded, as far as its memory depends on it.

    `repacked` are the tensor types whose matrices this build of llama.cpp lays out anew for the
    processor; `own_process` is False for a draft model, which lives in the process of another.
    ingle's own engine divides the model among `ranks` processes, by layers if they are `stages`.
    """

    context: int
    slots: int = DEFAULT_SLOTS
    batch: int = DEFAULT_BATCH
    kv_type: KVType = KVType.F16
    flash_attention: bool = True
    repacked: frozenset[str] = frozenset()
    own_process: bool = True
    ranks: int = 1
    stages: tuple[int, ...] = ()

    @property
    def cells(self) -> int:
        """Tokens that the KV cache holds."""
        return -(-self.context // _CONTEXT_STEP) * _CONTEXT_STEP

    @property
    def outputs(self) -> int:
        """Tokens of a step that may want logits."""
        return self.slots + KEPT_SLOTS + 1


def estimate_memory(shape: ModelShape, load: LoadParameters) -> MemoryEstimate:
    """Predict the memory of a model that a processor computes alone.

    Layers with a sliding window keep the whole context as well, or else prefixes could not be used
    again.
    """
    if shape.task is not ModelTask.GENERATE:
        return _estimate_embedding(shape, load)
    copied = sum(size for kind, size in shape.matrices.items() if kind in load.repacked)
    tied = shape.tied_bytes if shape.tied_type in load.repacked else 0
    return MemoryEstimate(
        weights=shape.weights + tied,
        kv=_kv_bytes(shape.layers, load),
        compute=step_bytes(shape, load) + output_bytes(shape, load.outputs),
        runtime=_runtime(shape, load),
        reclaimable=copied,
    )


def estimate_split(shape: ModelShape, load: LoadParameters, split: GPUSplit) -> SplitEstimate:
    """Predict the memory of both kinds on a machine with a GPU that llama.cpp can use.

    Each side that has layers has the buffers of a whole step. The GPU also gets room for the
    largest matrix that stays on the processor: for long prompts they are sent over one by one.
    """
    gpu_layers = min(split.gpu_layers, len(shape.layers) + 1)
    if gpu_layers <= 0:
        return SplitEstimate(estimate_memory(shape, load), MemoryEstimate())
    first = len(shape.layers) + 1 - gpu_layers
    below, above = shape.layers[:first], shape.layers[first:]
    experts = sum(layer.experts for layer in shape.layers[first : max(first, split.cpu_experts)])
    sent = [layer.largest for layer in below]
    if experts:
        sent.append(max(layer.largest for layer in above))
    on_both = bool(sent)
    step, inputs = step_bytes(shape, load), step_inputs_bytes(shape, load)
    runtime = _runtime(shape, load)
    if load.own_process:
        runtime += GPU_PROCESS_HOST
    host = MemoryEstimate(
        weights=shape.input_bytes + sum(layer.weights for layer in below) + experts,
        kv=_kv_bytes(below, load),
        compute=(step if on_both else inputs) + output_bytes(shape, load.outputs),
        runtime=runtime,
    )
    gpu = MemoryEstimate(
        weights=sum(layer.weights for layer in above)
        - experts
        + shape.output_bytes
        + shape.tied_bytes,
        kv=_kv_bytes(above, load),
        compute=step + max(sent, default=0),
        runtime=GPU_PROCESS if load.own_process else 0,
    )
    return SplitEstimate(host, gpu)


def check_kv_type(header: GGUFHeader, kv_type: KVType) -> None:
    """Raise `UnsupportedModel` where the model's heads cannot be stored in blocks of this type."""
    block = kv_type.block_elements
    for length in (header.key_length, header.value_length):
        if length % block:
            raise UnsupportedModel(
                f"{header.path.name} has heads of {length} elements, and a {kv_type} KV cache "
                f"stores {block} at a time.",
                hint=f"Load it with the kv_type {KVType.F16}.",
            )


def largest_context(most: int, room: int, cost: Callable[[int], int]) -> int:
    """The context, in tokens, to load a model with: at most `room` bytes by `cost`.

    At most `most`; a multiple of 256, and not below 512 unless `most` is.
    """
    if most <= _SMALLEST_DEFAULT:
        return most
    low, high = _SMALLEST_DEFAULT // _CONTEXT_STEP, most // _CONTEXT_STEP
    while low < high:
        middle = -(-(low + high) // 2)
        low, high = (middle, high) if cost(middle * _CONTEXT_STEP) <= room else (low, middle - 1)
    return low * _CONTEXT_STEP


def _kv_bytes(layers: tuple[LayerShape, ...], load: LoadParameters) -> int:
    """Of the cells, and of the running states of layers that have those instead."""
    keys = sum(load.kv_type.bytes_of(layer.key_elements) for layer in layers)
    values = sum(load.kv_type.bytes_of(layer.value_elements) for layer in layers)
    states = sum(layer.state for layer in layers)
    return load.cells * (keys + values) + states * (load.slots + KEPT_STATES + 1)


def _runtime(shape: ModelShape, load: LoadParameters) -> int:
    process = LLAMA_PROCESS if load.own_process else 0
    return process + vocabulary_bytes(shape.vocab_size, shape.merges)


def _estimate_embedding(shape: ModelShape, load: LoadParameters) -> MemoryEstimate:
    """A model without KV cache, or with one for a single batch."""
    tokens = max(load.context, load.batch)
    piece = tokens if shape.one_piece else load.batch
    # An encoder hands out a row of each token, and llama.cpp makes room for its logits, too.
    rows = piece if shape.one_piece else EMBEDDING_SLOTS
    per_token = (shape.key_elements + shape.value_elements) if shape.has_cache else 0
    copied = sum(size for kind, size in shape.matrices.items() if kind in load.repacked)
    # The buffer that it begins with has a row of each text, and is replaced by that larger one; the
    # C library keeps it for later, if it is not too large for that.
    first = output_bytes(shape, EMBEDDING_SLOTS) if shape.one_piece else 0
    handed_over = output_bytes(shape, rows) + (first if first <= _KEPT_BY_LIBC else 0)
    return MemoryEstimate(
        weights=shape.weights,
        kv=tokens * per_token * KVType.F16.bytes_of(1),
        compute=embedding_step_bytes(shape, tokens, piece) + handed_over,
        runtime=_runtime(shape, load),
        reclaimable=copied,
    )


def step_bytes(shape: ModelShape, load: LoadParameters) -> int:
    """Buffers of one step, whose largest moment is in a block, in the attention or at the logits.

    What is allocated at once follows llama.cpp's own reports for Llama, Qwen, Gemma,
    mixture-of-experts and gpt-oss models of 0.1 to 70 billion weights: within 3 percent of them.
    """
    batch = min(load.batch, load.cells)
    embedding = shape.embedding_length
    mask = _mask_bytes(shape, load)
    width = max(_dense_width(shape, load.kv_type), _expert_width(shape))
    logits = shape.vocab_size * load.outputs * _FLOAT
    moments = [
        (batch + load.outputs // 2) * width * _FLOAT + mask,
        logits + batch * embedding * _FLOAT,
    ]
    if not load.flash_attention:
        scores = shape.head_count * load.cells * batch * _FLOAT * 33 // 32
        rest = batch * max(embedding, shape.head_count * shape.key_length) * 22
        moments.append(scores + rest + mask)
    return max(moments)


def step_inputs_bytes(shape: ModelShape, load: LoadParameters) -> int:
    """What the processor prepares if a GPU computes everything: looked-up rows, and masks."""
    batch = min(load.batch, load.cells)
    return batch * shape.embedding_length * _FLOAT + _mask_bytes(shape, load)


def output_bytes(shape: ModelShape, rows: int) -> int:
    """The buffer of results: logits of `rows` tokens, which llama.cpp clears and so touches.

    Models that embed return hidden states beside them.
    """
    width = shape.vocab_size + (0 if shape.task == "generate" else shape.embedding_length)
    return width * rows * _FLOAT


def embedding_step_bytes(shape: ModelShape, tokens: int, piece: int) -> int:
    """As `step_bytes`, for texts to embed: `piece` of `tokens` are computed at once."""
    width = 4 * shape.embedding_length + (3 if shape.gated else 1) * shape.feed_forward_length
    return piece * width * _FLOAT + tokens * piece * 2


def _dense_width(shape: ModelShape, kv_type: KVType) -> int:
    """Floats a token in a block: some rows as wide as the model, and three of the feed-forward."""
    if shape.experts_used:
        return 4 * shape.embedding_length
    # Quantized caches rotate their input in the place of one row.
    rows = 3 if kv_type.block_elements > 1 and not shape.windowed else 4
    return rows * shape.embedding_length + 3 * shape.feed_forward_length


def _expert_width(shape: ModelShape) -> int:
    """Floats a token where experts' results are added up, or where their insides are wider."""
    used, embedding = shape.experts_used, shape.embedding_length
    if not used:
        return 0
    return max(6 * embedding + 2 * used * embedding, 4 * used * shape.expert_feed_forward_length)


def _mask_bytes(shape: ModelShape, load: LoadParameters) -> int:
    """The attention mask: one for each kind of layer, in half precision for flash attention."""
    masks = 2 if shape.windowed else 1
    batch = min(load.batch, load.cells)
    return masks * load.cells * batch * (2 if load.flash_attention else 4) * 33 // 32
