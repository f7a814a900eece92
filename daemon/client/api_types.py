"""The parts of the native API's answers that the commands read; `docs/api.md` explains them."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class MemoryNeeds(TypedDict):
    """Bytes of the machine's memory, and of the GPU's."""

    host: int
    gpu: int


class MemoryShare(TypedDict):
    """What a model takes of one kind of memory, by purpose; bytes."""

    weights: int
    kv: int
    compute: int
    runtime: int
    total: int


class FitReport(TypedDict):
    """Whether a model would run here, and how; bytes and tokens."""

    name: str
    installed: bool
    size: int
    licence: str
    architecture: str
    parameters: int
    quantization: str
    trained_context: int
    fits: bool
    reason: str
    context: int
    longest_context: int
    host: MemoryShare
    gpu: MemoryShare
    needs: MemoryNeeds
    available: MemoryNeeds
    fetched: int


class ModelMemory(TypedDict):
    """Bytes reckoned with and held; `mapped` are those that files back."""

    predicted: MemoryNeeds
    measured: MemoryNeeds
    mapped: int


class LoadedModel(TypedDict):
    """A model with a process, or the trace of one that failed; sizes in bytes, times in seconds."""

    name: str
    state: str
    fraction: float
    error: str | None
    quarantined_for: float
    pid: int | None
    engine: str
    device: str
    context: int
    slots: int
    kv_capacity: int
    kv_used: int
    kv_memory_bytes: int
    kv_disk_bytes: int
    restored_tokens: int
    cached_tokens_total: int
    prompt_tokens_total: int
    completion_tokens_total: int
    drafted_tokens_total: int
    accepted_tokens_total: int
    prompt_rate: float
    decode_rate: float
    running: int
    waiting: int
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    rss: int
    memory: ModelMemory
    layers: int
    layers_on_gpu: int
    quantize: str
    kv_type: str
    flash_attention: bool
    reason: str
    warnings: list[str]
    pinned: bool
    loaded_for: float
    expires_in: float | None


class ModelFit(TypedDict):
    """A forecast from what the list knows of a model."""

    state: str
    needs_bytes: int
    free_bytes: int


class ModelEntry(TypedDict):
    """A model that is installed, or that the catalog offers."""

    name: str
    installed: bool
    state: str
    default: bool
    size: int
    parameters: int
    quantization: str
    architecture: str
    context: int
    licence: str
    description: str
    path: str | None
    chat: bool
    task: str
    place: str
    same_as: str | None
    notes: list[str]
    fit: NotRequired[ModelFit | None]


class UnusableModel(TypedDict):
    """Something that another program keeps and ingle cannot run."""

    name: str
    path: str
    place: str
    reason: str


class Removed(TypedDict):
    """What went, or would go, with a model; older daemons say only the first two."""

    removed: str
    freed: int
    files: NotRequired[list[str]]
    keeps: NotRequired[list[str]]
    place: NotRequired[str]
    shared_with: NotRequired[list[str]]
    loaded: NotRequired[bool]
    running: NotRequired[int]


class DeviceGauges(TypedDict):
    """A GPU or the processor; null where there is no meter."""

    name: str
    kind: str
    memory_total: int | None
    memory_used: int | None
    utilization: float | None
    watts: float | None
    joules: float | None


class Status(TypedDict):
    """The daemon at one moment."""

    version: str
    pid: int
    uptime: float
    socket: str
    address: str | None
    default_model: str
    models: list[LoadedModel]
    devices: list[DeviceGauges]


class PullProgress(TypedDict):
    """How far a download is; sizes in bytes, `eta` in seconds."""

    model: str
    status: str
    source: str | None
    received: int
    total: int | None
    bytes_per_second: float
    eta: float | None


class AnswerRoute(TypedDict):
    """Where a policy had a generation answered; `provider` is "" for this machine."""

    verdict: str
    rule: str
    reason: str
    provider: str
    model: str


class Finished(TypedDict):
    """How a generation ended."""

    reason: Literal["stop", "length", "cancelled"]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    context: int
    queue_seconds: float
    prompt_seconds: float
    decode_seconds: float
