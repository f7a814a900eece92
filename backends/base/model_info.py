"""Facts about a loaded model, and the gauges that its worker reports."""

from __future__ import annotations

import msgspec

from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask

from .load_spec import SpeculationKind


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a loaded model really got; sizes in bytes.

    `context` is the number of tokens one request may use, prompt and answer together. The KV cache
    of `kv_capacity` tokens is shared by `slots` sequences. `draft` is the file of the model that
    guesses along, `draft_note` says why there is none although one was to be. A model that embeds
    gives vectors of `dimensions` numbers, and takes `slots` texts of `context` tokens at most in
    one batch.
    """

    engine: str
    device: str
    architecture: str
    parameters: int
    vocab_size: int
    trained_context: int
    context: int
    slots: int
    kv_capacity: int
    has_chat_template: bool
    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    layers: int = 0
    layers_on_gpu: int = 0
    kv_type: KVType = KVType.F16
    flash_attention: bool = False
    warnings: list[str] = []
    """What was asked for and could not be had; one sentence each."""

    speculation: SpeculationKind = "off"
    draft: str | None = None
    draft_note: str | None = None
    task: ModelTask = ModelTask.GENERATE
    dimensions: int = 0
    chat_template: str | None = None
    bos_token: str = ""
    eos_token: str = ""
    infills: bool = False
    """Whether it was trained to fill gaps."""

    reasons: bool = False
    """Whether it can think before it answers."""

    calls_tools: bool = False
    """Whether its template knows tools; others are told of them in words."""


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's state at one moment; totals count since it started.

    `kv_used` cells belong to running sequences, `kv_kept` hold ended ones for requests that begin
    alike; they give way to running ones. `kv_memory_bytes` and `kv_disk_bytes` are what is stored
    of those that gave way, or may. `prompt_rate` and `decode_rate` are measured tokens a second of
    a prompt that is read, and of one answer alone; 0 where nothing was measured yet.
    """

    running: int = 0
    waiting: int = 0
    kv_used: int = 0
    kv_kept: int = 0
    kv_capacity: int = 0
    kv_memory_bytes: int = 0
    kv_disk_bytes: int = 0
    prompt_tokens_total: int = 0
    completion_tokens_total: int = 0
    cached_tokens_total: int = 0
    drafted_tokens_total: int = 0
    accepted_tokens_total: int = 0
    restored_tokens_total: int = 0
    preemptions_total: int = 0
    steps_total: int = 0
    prompt_rate: float = 0.0
    decode_rate: float = 0.0
