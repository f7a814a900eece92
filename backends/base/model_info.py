"""Facts about a loaded model, and the gauges that its worker reports."""

from __future__ import annotations

import msgspec

from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask

from .load_spec import SpeculationKind

OWN_HEAD = "its own MTP head"
"""The `draft` of a model whose files have a head that drafts."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The actual settings of a loaded model; sizes in bytes.

    `context` is the number of tokens one request may use, prompt and answer together. The KV cache
    of `kv_capacity` tokens is shared by `slots` sequences. `draft` is the file of the draft model,
    or `OWN_HEAD`; `draft_note` is the reason if a requested one could not be loaded. A model that
    embeds gives vectors of `dimensions` numbers, and takes `slots` texts of `context` tokens at
    most in one batch.
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
    """Settings that could not be applied; one sentence each."""

    speculation: SpeculationKind = "off"
    draft: str | None = None
    draft_note: str | None = None
    task: ModelTask = ModelTask.GENERATE
    dimensions: int = 0
    chat_template: str | None = None
    bos_token: str = ""
    eos_token: str = ""
    infills: bool = False
    """Whether it was trained for infill (FIM)."""

    sees: bool = False
    """Whether it reads pictures."""

    reasons: bool = False
    """Whether it can reason before it answers."""

    calls_tools: bool = False
    """Whether its template renders tools; else the prompt describes them in words."""


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's state at one moment; totals count since it started.

    `kv_used` tokens of the cache belong to running sequences; `kv_kept` are cached, evictable ones
    of finished sequences. `kv_memory_bytes` and `kv_disk_bytes` are the sizes of the KV store's
    tiers. `prompt_rate` is the measured speed of prefill, `decode_rate` that of one sequence, in
    tokens a second; 0 if not measured yet. The prompts that are being computed have
    `prefill_tokens`, of which `prefilled_tokens` are in the cache.
    """

    running: int = 0
    waiting: int = 0
    prefill_tokens: int = 0
    prefilled_tokens: int = 0
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

    def after_the_end(self) -> Gauges:
        """Return them for a worker that has ended: it runs nothing and has no memory."""
        present = ("running", "waiting", "prefill_tokens", "prefilled_tokens")
        gone = dict.fromkeys((*present, "kv_used", "kv_kept", "kv_memory_bytes"), 0)
        return msgspec.structs.replace(self, **gone)
