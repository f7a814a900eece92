"""How much memory a model takes on ingle's own engine, worked out from its shape."""

from __future__ import annotations

from ..config.model_config import LayerConfig, ModelConfig
from ..errors import UnsupportedModel
from ..kv_type import KVType
from .llama_cpp_fit import LoadParameters, MemoryEstimate, SplitEstimate
from .process_overhead import GPU_PROCESS, TORCH_GPU_PROCESS, TORCH_PROCESS

PAGE_SIZE = 32
MAX_DRAFTS = 15
"""Draft tokens that one step may verify, over all sequences."""
_SPARE = 2**30
_FLOAT = 4
_COPIED_EXPERTS = 3 << 24
"""Weights of experts that are copied at once, as `expert_layers` does."""
_EXPERT_BLOCK = 32
"""The most rows of a block of one expert, as `expert_gemm` chooses them."""
_TILE = 1.5
"""Bytes of an activation in an int8 tile."""
_RECORDED = 64
"""Tokens of the largest step that is recorded."""
RECORDING_BYTES = 128 * 2**20
"""Of a GPU's memory that the driver may take for recorded steps: what they take is measured."""
_SNAPSHOT_SHARE = 4
_FEWEST_SNAPSHOTS, _MOST_SNAPSHOTS = 2, 128
_FEWEST_DRAFTS = 3
_DRAFT_STATES = 256 * 2**20
_GPU_RESERVE = 256 * 2**20
"""Left to the driver and to fragments, without which `PageBudget` gives no page away."""


def estimate_own_on_cpu(
    config: ModelConfig,
    load: LoadParameters,
    *,
    weights: int,
    mapped: int,
    vocabulary: int,
    whole: ModelConfig | None = None,
) -> SplitEstimate:
    """Predict a model that ingle's own engine computes on the processor: blocks, and one step.

    Blocks are counted exactly. The step is that of the reference operations, which copy a context's
    keys and values to floats, and a mask over it. Where its `weights` became floats, the `mapped`
    bytes of the file they come from are of no further use; 0 for files that are closed once read.
    A rank's `config` is that of its part of the `whole` model.
    """
    context, slots = load.context, load.slots
    width = max((heads.count * heads.size for heads in config.key_heads), default=0)
    fewest = min((heads.count for heads in config.key_heads), default=config.num_heads)
    group = config.num_heads // fewest
    scores = 1 + _FLOAT
    if config.attention_soft_cap is not None or config.attention_sinks:
        copies = 4 if config.attention_sinks else 3  # of the scores of all heads
        scores = copies * _FLOAT * fewest
    tokens = min(load.batch, context)
    attention = tokens * context * group * scores + 4 * context * width * _FLOAT
    layer = tokens * config.step_elements * _FLOAT
    logits = 4 * slots * config.vocab_size * _FLOAT
    host = MemoryEstimate(
        weights=weights,
        kv=_kv_bytes(config, load, whole or config),
        compute=max(attention, layer) + logits,
        runtime=vocabulary + (TORCH_PROCESS if load.own_process else 0),
        reclaimable=mapped if weights > mapped else 0,
    )
    return SplitEstimate(host, MemoryEstimate())


def estimate_own_on_gpu(
    config: ModelConfig,
    load: LoadParameters,
    *,
    weights: int,
    vocabulary: int,
    whole: ModelConfig | None = None,
) -> SplitEstimate:
    """A model that ingle's own engine computes on a GPU, all of it.

    A step holds activations in 16 bits and one matrix at a time that was unpacked for a long
    prompt; recordings of short steps hold their logits three times, and have memory of the driver.
    A rank's `config` is that of its part of the `whole` model.
    """
    tokens = min(load.batch, load.context)
    experts = max((_expert_bytes(config, layer, tokens) for layer in config.layers), default=0)
    unpacked = max(2 * config.hidden_size * config.intermediate_size, experts)
    logits = config.vocab_size * _FLOAT * (4 * load.slots + 3 * _RECORDED)
    process = load.own_process
    gpu = MemoryEstimate(
        weights=weights + _latent_bytes(config),
        kv=_kv_bytes(config, load, whole or config),
        compute=2 * tokens * config.step_elements + unpacked + logits + RECORDING_BYTES,
        runtime=GPU_PROCESS + _GPU_RESERVE if process else 0,
    )
    host = MemoryEstimate(runtime=vocabulary + (TORCH_GPU_PROCESS if process else 0))
    return SplitEstimate(host, gpu)


def _latent_bytes(config: ModelConfig) -> int:
    """What matrices of latent attention take in 16 bits beyond those of files, in Q8_0."""
    if (latent := config.latent) is None:
        return 0
    each = config.num_heads * latent.rank * (latent.key_size + latent.value_size)
    return config.num_layers * each * 15 // 16


def _expert_bytes(config: ModelConfig, layer: LayerConfig, tokens: int) -> int:
    """What the experts of a layer take for a prompt's tokens: rows of blocks, or copied weights.

    A row has its inputs and the activations between as int8 tiles and its products as floats.
    """
    if layer.experts is None:
        return 0
    picks = tokens * layer.experts.used
    rows = picks + min(layer.experts.count, picks) * _EXPERT_BLOCK
    row = config.hidden_size * (_TILE + _FLOAT) + layer.experts.width * (_TILE + 2 * _FLOAT)
    return max(int(rows * row), 2 * _COPIED_EXPERTS)


def _kv_bytes(config: ModelConfig, load: LoadParameters, whole: ModelConfig) -> int:
    """The blocks of one whole context, one more for each slot, one for padding, and the states.

    All ranks have as many states, of which each is whole.
    """
    blocks = -(-load.context // PAGE_SIZE) + load.slots + 1
    rows = state_rows(whole, context=load.context, slots=load.slots, kv_type=load.kv_type)
    states = (rows + 1) * config.state_bytes if rows else 0  # one more for steps without a cache
    return blocks * PAGE_SIZE * token_kv_bytes(config, load.kv_type) + states


def state_rows(config: ModelConfig, *, context: int, slots: int, kv_type: KVType) -> int:
    """Rows for recurrent states; 0 if the model has none.

    One for each slot and each draft token of a step, and for snapshots, which take a quarter of the
    memory that the keys and values of one context do, within bounds.
    """
    if not config.state_bytes:
        return 0
    keys = context * token_kv_bytes(config, kv_type)
    snapshots = min(keys // _SNAPSHOT_SHARE // config.state_bytes, _MOST_SNAPSHOTS)
    return slots + state_drafts(config) + max(slots + _FEWEST_SNAPSHOTS, snapshots)


def state_drafts(config: ModelConfig) -> int:
    """Draft tokens that one step of a model with states may verify: each takes a row."""
    return max(_FEWEST_DRAFTS, min(MAX_DRAFTS, _DRAFT_STATES // config.state_bytes))


def token_kv_bytes(config: ModelConfig, kv_type: KVType) -> int:
    """Bytes of the keys and values of one token."""
    return sum(
        heads.planes * heads.count * kv_type.paged_bytes(heads.size) for heads in config.key_heads
    )


def head_features(width: int, load: LoadParameters, *, on_gpu: bool) -> int:
    """Bytes of the features that a head keeps of a step's tokens, and of each sequence's last."""
    return (load.batch + load.slots + 2) * width * (2 if on_gpu else _FLOAT)


def weights_on_cpu(parameters: int, stored: int, available: int) -> int:
    """Bytes of the weights on a CPU: as floats where that many are free, else as they are stored.

    Floats spare the reference operations the conversion in every step.
    """
    floats = parameters * _FLOAT
    return floats if floats + _SPARE <= available else stored


def nf4_bytes(config: ModelConfig, parameters: int, stored: int) -> int:
    """Bytes of weights that took `stored` ones before their linear layers were put into NF4.

    Embeddings stay as they are; four bits a weight come with a scale of a byte for each 64 of them
    and a mean for each 256 scales.
    """
    width = config.hidden_size * (1 if config.tied_embeddings else 2)
    embeddings = config.vocab_size * (width + config.num_layers * config.layer_input_width)
    linear = max(0, parameters - embeddings)
    scale = _FLOAT if config.is_mixture else 1  # experts are sliced, and their groups of scales not
    packed = linear // 2 + linear * scale // 64 + linear * _FLOAT // (64 * 256)
    return min(stored, stored * min(embeddings, parameters) // parameters + packed)


def check_paged_kv_type(name: str, config: ModelConfig, kv_type: KVType) -> None:
    """Raise `UnsupportedModel` where no page can hold the model's heads in this type."""
    sizes = {heads.size for heads in config.key_heads}
    try:
        for heads in set(config.key_heads):
            form = kv_type.page_format(heads.size)
            if form is not None and heads.inner_values and not form.ends_with(heads.inner_values):
                raise UnsupportedModel(
                    f"{name} has latent attention, whose values a {kv_type} KV cache cannot keep "
                    "in the keys.",
                    hint=f"Load it with the kv_type {KVType.Q8_0} or {KVType.F16}.",
                )
    except ValueError:
        raise UnsupportedModel(
            f"{name} has heads of {max(sizes)} elements, for which a {kv_type} KV cache has "
            "no pages.",
            hint=f"Load it with the kv_type {KVType.F16}.",
        ) from None
