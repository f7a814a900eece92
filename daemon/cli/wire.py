"""The parts of the native API's answers that the commands read; `docs/api.md` explains them."""

from __future__ import annotations

from typing import Literal, TypedDict


class LoadedModel(TypedDict):
    """A model with a process, or the trace of one that failed; sizes in bytes, times in seconds."""

    name: str
    state: str
    fraction: float
    error: str | None
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
    running: int
    waiting: int
    weights_bytes: int
    kv_bytes: int
    compute_bytes: int
    rss: int
    layers: int
    layers_on_gpu: int
    quantize: str
    kv_type: str
    flash_attention: bool
    warnings: list[str]
    loaded_for: float
    expires_in: float | None


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


class Status(TypedDict):
    """The daemon at one moment."""

    version: str
    pid: int
    uptime: float
    socket: str
    address: str | None
    default_model: str
    models: list[LoadedModel]


class PullProgress(TypedDict):
    """How far a download is; sizes in bytes, `eta` in seconds."""

    model: str
    status: str
    source: str | None
    received: int
    total: int | None
    bytes_per_second: float
    eta: float | None


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
