"""Types of models in the native API: lists, loaded models, fit, downloads, removal."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from .answer import Answer

EntryState = Literal[
    "available", "downloading", "stopped", "starting", "ready", "draining", "stopping", "failed"
]
TaskName = Literal["generate", "embed", "rerank", "transcribe"]


class ModelState(StrEnum):
    """The state of a model's process."""

    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"


class MemoryBytes(Answer, frozen=True):
    """Bytes of the machine's memory and of the GPU's; free memory can be negative.

    If a machine has several GPUs, `gpu` is the one that models are loaded on, and `other_gpus` are
    those behind it.
    """

    host: int = 0
    gpu: int = 0
    other_gpus: tuple[int, ...] = ()

    @property
    def gpus(self) -> list[int]:
        """Bytes of each GPU."""
        return [self.gpu, *self.other_gpus]


class ModelMemory(Answer, frozen=True):
    """Bytes predicted before a model was loaded, and bytes that its process holds now.

    `measured` leaves out pages of mapped files, which `mapped` counts; its `gpu` is 0 if the
    driver does not report it. `reclaimable` bytes of `mapped` are predicted to be of no further
    use: the system takes them back when it needs them, and `predicted` leaves them out.
    """

    predicted: MemoryBytes = MemoryBytes()
    measured: MemoryBytes = MemoryBytes()
    mapped: int = 0
    reclaimable: int = 0

    @property
    def held(self) -> int:
        """Bytes of the process in all kinds of memory; 0 while that is not known."""
        return self.measured.host + sum(self.measured.gpus) + self.mapped


class KnownAgent(Answer, frozen=True, kw_only=True):
    """An agent whose prompts begin with so many known tokens, computed ahead or just being so."""

    agent: str
    tokens: int
    computing: bool = False


class PromptsAhead(Answer, frozen=True, kw_only=True):
    """How many beginnings of an agent's prompts are known, and so computed once it is loaded."""

    model: str
    known: int


class LoadedModel(Answer, frozen=True, kw_only=True):
    """One model's process; sizes in bytes, durations in seconds, 0 for what is not known yet.

    Context and KV cache are in tokens; a request can have `longest_context`, for which the model is
    loaded again if that is more than `context`. `prompt_rate` and `decode_rate` are measured tokens
    per second of prefill and of one answer's decode. The prompts that are being computed have
    `prefill_tokens`, of which `prefilled_tokens` are in the cache. `quarantined_for` is the time
    until a model that crashed too often may start again, else 0.
    """

    name: str
    state: ModelState
    fraction: float = 0.0
    error: str | None = None
    quarantined_for: float = 0.0
    pid: int | None = None
    engine: str = ""
    device: str = ""
    context: int = 0
    longest_context: int = 0
    slots: int = 0
    kv_capacity: int = 0
    kv_used: int = 0
    kv_kept: int = 0
    kv_memory_bytes: int = 0
    kv_disk_bytes: int = 0
    restored_tokens: int = 0
    cached_tokens_total: int = 0
    running: int = 0
    waiting: int = 0
    prefill_tokens: int = 0
    prefilled_tokens: int = 0
    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    rss: int = 0
    memory: ModelMemory = ModelMemory()
    layers: int = 0
    layers_on_gpu: int = 0
    quantize: Literal["none", "nf4"] = "none"
    tensor_parallel: int = 1
    kv_type: str = ""
    flash_attention: bool = False
    speculation: Literal["auto", "off", "ngram", "draft"] = "off"
    draft: str | None = None
    draft_note: str | None = None
    prompt_tokens_total: int = 0
    completion_tokens_total: int = 0
    drafted_tokens_total: int = 0
    accepted_tokens_total: int = 0
    preemptions_total: int = 0
    prompt_rate: float = 0.0
    decode_rate: float = 0.0
    reason: str = ""
    warnings: list[str] = []
    known_agents: list[KnownAgent] = []
    pinned: bool = False
    loaded_for: float = 0.0
    expires_in: float | None = None


class ModelFit(Answer, frozen=True, kw_only=True):
    """Where a model would run, the bytes it would need, and its tokens of context.

    `spills`: part of it would not be on the GPU. `free_bytes` is the memory of that device that is
    free once idle models are evicted. `reason` explains the fit in one sentence; it is empty if the
    shape of the model is not known and the fit is an estimate from its size, within a fifth.
    `context` is 0 if no context fits; for a longer prompt an installed model is loaded with up to
    `longest_context`, 0 for others. `needs_engine` is the engine that has to be installed for this,
    empty if none. `tokens_per_second` is the predicted speed of an answer, None if unknown.
    """

    device: Literal["cuda", "cpu"]
    state: Literal["fits", "spills", "no"]
    needs_engine: str = ""
    needs_bytes: int = 0
    free_bytes: int = 0
    context: int = 0
    longest_context: int = 0
    reason: str = ""
    tokens_per_second: float | None = None


class KeptVersion(Answer, frozen=True):
    """A version of a model that is kept: the digest of its weights, and its size in bytes."""

    sha256: str
    size: int


class ModelEntry(Answer, frozen=True, kw_only=True):
    """A model that is installed, or that the catalog offers; size in bytes, context in tokens.

    `place` names the program or folder that keeps it and is empty for ingle's own; `same_as` is a
    model with the same weights. `error` is why its process failed, and `quarantined_for` the
    seconds until it may start again after too many crashes. `kept` are versions that an update
    replaced; only the answer about a single model has them. With `vision` it sees pictures.
    """

    name: str
    installed: bool
    state: EntryState
    default: bool = False
    size: int = 0
    parameters: int = 0
    quantization: str = ""
    architecture: str = ""
    context: int = 0
    licence: str = ""
    description: str = ""
    path: str | None = None
    chat: bool = True
    vision: bool = False
    task: TaskName = "generate"
    fit: ModelFit | None = None
    draft: str | None = None
    place: str = ""
    same_as: str | None = None
    notes: list[str] = []
    error: str | None = None
    quarantined_for: float = 0.0
    kept: list[KeptVersion] = []

    @property
    def writes(self) -> bool:
        """Whether it generates text, unlike models that embed or rank texts."""
        return self.task == "generate"

    @property
    def purpose(self) -> str:
        """What a model is for that does not generate text."""
        return {"embed": "embeddings", "rerank": "ranking"}.get(self.task, "speech")


class UnusableEntry(Answer, frozen=True):
    """A model of another program that ingle cannot run, and why."""

    name: str
    path: str = ""
    place: str = ""
    reason: str = ""


class DownloadProgress(Answer, frozen=True, kw_only=True):
    """Progress of a download: bytes received and in total, bytes per second, seconds left.

    `status` is a word or two for people; `source` is empty before one was chosen. `task` is empty
    unless it is known before the files are here.
    """

    model: str
    status: str
    source: str = ""
    received: int = 0
    total: int | None = None
    bytes_per_second: float = 0.0
    eta: float | None = None
    task: str = ""


class UnfinishedPull(Answer, frozen=True):
    """A download that was stopped, and the bytes that it left; a pull continues it."""

    name: str
    received: int = 0


class UpstreamChange(Answer, frozen=True, kw_only=True):
    """Whether the source of a model has another file now: `current`, `changed` or `unknown`.

    `size` is that of the version in use, `new_size` that of the source's, and `download` what of it
    is not here, in bytes; None if the source does not say.
    """

    name: str
    state: str
    reason: str = ""
    size: int = 0
    new_size: int | None = None
    download: int | None = None


class ModelEntries(Answer, frozen=True):
    """Installed models first, then those of the catalog; the downloads that run.

    `disk_free` is the free space for models in bytes, 0 if unknown; `unusable` are models of other
    programs that ingle cannot run; `unfinished` are downloads that were stopped.
    """

    models: list[ModelEntry]
    pulls: list[DownloadProgress] = []
    disk_free: int = 0
    unusable: list[UnusableEntry] = []
    unfinished: list[UnfinishedPull] = []


class MemoryShare(Answer, frozen=True, kw_only=True):
    """Bytes that a model needs of one kind of memory, by purpose."""

    weights: int = 0
    kv: int = 0
    compute: int = 0
    runtime: int = 0
    total: int = 0


class FitReport(Answer, frozen=True, kw_only=True):
    """The forecast of loading a model; sizes in bytes, contexts in tokens.

    `size` is that of its files. `context` is the one it would be loaded with, `longest_context` the
    longest that would fit, 0 if none does. `gpu_layers` of `layers` blocks and the output would be
    on the GPU (-1: all), except the experts of `cpu_experts` blocks. `fetched` bytes were read
    over the network for this report. `with_engine` is a sentence on what an engine that could be
    installed would change, empty if nothing. `draft` is the draft model that would be loaded with
    it, empty for none; `needs` include `draft_needs`. `gpu` and each of `other_gpus` are what a
    model that is divided takes of each GPU.
    """

    name: str
    installed: bool
    size: int = 0
    licence: str = ""
    architecture: str = ""
    parameters: int = 0
    quantization: str = ""
    trained_context: int = 0
    fits: bool = False
    reason: str = ""
    engine: str = ""
    device: str = ""
    layers: int = 0
    gpu_layers: int = 0
    cpu_experts: int = 0
    context: int = 0
    longest_context: int = 0
    host: MemoryShare = MemoryShare()
    gpu: MemoryShare = MemoryShare()
    other_gpus: list[MemoryShare] = []
    needs: MemoryBytes = MemoryBytes()
    available: MemoryBytes = MemoryBytes()
    fetched: int = 0
    with_engine: str = ""
    draft: str = ""
    draft_needs: MemoryBytes = MemoryBytes()


class Unloaded(Answer, frozen=True):
    """The models whose process has ended."""

    unloaded: list[str] = []


class Removed(Answer, frozen=True):
    """The model that is removed (or would be), and the bytes that this frees.

    `files` are deleted; `keeps` are its files that stay because `place` owns them; `shared_with`
    are models that have the same file; `running` answers end first.
    """

    removed: str
    freed: int
    files: list[str] = []
    keeps: list[str] = []
    place: str = ""
    shared_with: list[str] = []
    loaded: bool = False
    running: int = 0


class PullCancelling(Answer, frozen=True):
    """Whether there was a download to stop."""

    model: str
    cancelled: bool
