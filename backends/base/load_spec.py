"""The specification of a load: which model, on which engine, with which settings."""

from __future__ import annotations

from typing import Literal

import msgspec

from ingle.models.file_stamp import FileStamp
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask, Pooling

SpeculationKind = Literal["auto", "off", "ngram", "draft"]


Device = Literal["auto", "cuda", "cpu"]


Dtype = Literal["auto", "f32", "f16", "bf16"]


Quantize = Literal["none", "nf4"]


class KVStoreSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where keys and values go that the KV cache has no room for, and what outlives the worker.

    `folder` holds those of all models, `disk_bytes` at most (0: none); `model` is a name fit for a
    folder that no other weights have. `memory_bytes` bounds what this worker keeps in memory.
    """

    folder: str
    model: str
    disk_bytes: int
    memory_bytes: int


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which model a worker loads, and how.

    `context` is in tokens; `kv_capacity` tokens are shared by up to `slots` sequences (0: the same
    as `context`); `batch` bounds the tokens of one step; `threads` 0 means one a physical core,
    of the fast ones where there are two kinds; `gpu_layers` -1 means as many as llama.cpp can
    place, and the experts of the first `cpu_experts` blocks stay on the processor. A quantized
    `kv_type` needs flash attention. `mmap` lets weights be mapped from the file where that works,
    `mlock` keeps them from being swapped out. `chat_template` takes the place of the one in the
    file. `speculation` chooses the source of draft tokens: n-grams of the text (`ngram`),
    the smaller model at `draft_path` (`draft`), or whichever is faster (`auto`).
    ingle's own engine computes on `device`, with activations of `dtype`, and may `quantize` weights
    that are plain numbers while it loads them; llama.cpp goes by `gpu_layers` instead.
    Workers that name the same `compute_lease`, a file they lock, compute in turns. `script` is for
    the scripted engine only. `pooling` takes the place of what the file says, for a `task` other
    than to generate. Without a `kv_store` what ended sequences computed is lost when the KV cache
    needs the room. What has to be compiled for a GPU is kept in the folder `kernel_cache`. Where
    `may_fall_back`, llama.cpp takes over what ingle's own engine cannot load. A worker that is to
    `confine` itself opens only the files that are named here, and no network. An answer has at most
    `max_tokens` tokens (0: no limit), and `default_max_tokens` if its request does not say.
    """

    engine: str
    path: str
    context: int
    slots: int = 8
    kv_capacity: int = 0
    batch: int = 512
    threads: int = 0
    gpu_layers: int = -1
    cpu_experts: int = 0
    device: Device = "auto"
    dtype: Dtype = "auto"
    quantize: Quantize = "none"
    kv_type: KVType = KVType.F16
    flash_attention: Literal["auto", "on", "off"] = "auto"
    mmap: bool = True
    mlock: bool = False
    confine: bool = True
    chat_template: str | None = None
    speculation: SpeculationKind = "auto"
    draft_path: str | None = None
    compute_lease: str | None = None
    script: str | None = None
    kv_store: KVStoreSpec | None = None
    kernel_cache: str | None = None
    may_fall_back: bool = False
    task: ModelTask = ModelTask.GENERATE
    pooling: Pooling | None = None
    max_tokens: int = 0
    default_max_tokens: int = 0
    stamps: list[FileStamp] = []
    """What the model's files were when they were checked."""

    def answer_limit(self, requested: int | None) -> int | None:
        """Return the most tokens of an answer; None for the rest of the context."""
        wanted = self.default_max_tokens or None if requested is None else requested
        if not self.max_tokens:
            return wanted
        return self.max_tokens if wanted is None else min(wanted, self.max_tokens)
