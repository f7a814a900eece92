"""Load specifications: model, engine and settings."""

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
    """Where KV is stored that was evicted from the cache, or outlives the worker.

    `folder` holds the KV of all models, at most `disk_bytes` (0: none), each in a folder named
    `model`, which is unique to the weights. `memory_bytes` bounds the memory tier of this worker.
    """

    folder: str
    model: str
    disk_bytes: int
    memory_bytes: int


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The model that a worker loads, and the settings.

    `context` is in tokens; `kv_capacity` tokens are shared by up to `slots` sequences (0: the same
    as `context`); `batch` bounds the tokens of one step; `threads` 0 means one per physical core,
    without efficiency cores; `gpu_layers` -1 means as many as llama.cpp can place, and the experts
    of the first `cpu_experts` blocks stay on the CPU; llama.cpp divides layers among GPUs in the
    proportions of `tensor_split` (empty: by free memory), or has all on `main_gpu` (-1: no such). A
    quantised `kv_type` needs flash attention.
    `mmap` maps weights from the file if possible, `mlock` keeps them from being swapped out.
    `projector_path` is the file that turns pictures into tokens of the model.
    `chat_template` replaces the one in the file. `speculation` chooses the source of draft tokens:
    n-grams of the text (`ngram`), the smaller model or the head at `draft_path` (`draft`), or
    whichever is faster (`auto`); the model's own path stands for a head in its files.
    ingle's own engine computes on `device`, with activations of `dtype`, and may `quantize`
    unquantised weights on load; llama.cpp uses `gpu_layers` instead. It divides a model among as
    many devices as `tensor_parallel` says, with a process for each: every matrix, or with `stages`
    the layers, of which each process computes so many.
    Workers with the same `compute_lease`, a file that they lock, compute in turns. `script` is for
    the scripted engine only. `pooling` overrides the one in the file, for embedding and reranking
    models. Without a `kv_store`, evicted KV of finished sequences is lost. Kernels compiled for a
    GPU are cached in the folder `kernel_cache`. With `may_fall_back`, llama.cpp loads a model that
    ingle's own engine cannot load. With `confine`, a worker opens only the files that are named
    here, and no network. An answer has at most `max_tokens` tokens (0: no limit), and
    `default_max_tokens` if its request does not set a number. The packages of its engine are
    imported from the folders of `import_path` first. Adapters of requests are below the folder
    `adapters`.
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
    tensor_parallel: int = 1
    stages: tuple[int, ...] = ()
    tensor_split: tuple[float, ...] = ()
    main_gpu: int = -1
    kv_type: KVType = KVType.F16
    flash_attention: Literal["auto", "on", "off"] = "auto"
    mmap: bool = True
    mlock: bool = False
    confine: bool = True
    chat_template: str | None = None
    speculation: SpeculationKind = "auto"
    draft_path: str | None = None
    projector_path: str | None = None
    compute_lease: str | None = None
    script: str | None = None
    kv_store: KVStoreSpec | None = None
    kernel_cache: str | None = None
    may_fall_back: bool = False
    task: ModelTask = ModelTask.GENERATE
    pooling: Pooling | None = None
    max_tokens: int = 0
    default_max_tokens: int = 0
    adapters: str | None = None
    import_path: list[str] = []
    stamps: list[FileStamp] = []
    """Identity and times of the model's files when they were checked."""

    def answer_limit(self, requested: int | None) -> int | None:
        """Return the maximum tokens of an answer; None for the rest of the context."""
        wanted = self.default_max_tokens or None if requested is None else requested
        if not self.max_tokens:
            return wanted
        return self.max_tokens if wanted is None else min(wanted, self.max_tokens)
