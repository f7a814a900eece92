"""Types of the daemon's state in the native API: status, gauges, KV cache pages."""

from __future__ import annotations

from typing import Literal

from .answer import Answer
from .model_types import DownloadProgress, LoadedModel
from .routing_types import AnswerCost


class GpuMemory(Answer, frozen=True, kw_only=True):
    """Total and available bytes of a GPU, and those of each process that the driver reports."""

    total: int = 0
    available: int = 0
    processes: dict[int, int] = {}


class MemoryGauges(Answer, frozen=True, kw_only=True):
    """Total, available and used memory in bytes, within the limit of a control group.

    The GPU is the one that models are loaded on, 0 if there is none; `gpu_processes` is its memory
    by process, as far as the driver reports it. `other_gpus` are those behind it, on which divided
    models have parts.
    """

    total: int = 0
    available: int = 0
    daemon_rss: int = 0
    gpu_total: int = 0
    gpu_available: int = 0
    gpu_processes: dict[int, int] = {}
    other_gpus: list[GpuMemory] = []


class DeviceGauges(Answer, frozen=True, kw_only=True):
    """A GPU or the processor; bytes, watts and a fraction, null if there is no meter.

    `joules` counts since the daemon's first reading.
    """

    name: str
    kind: str
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    watts: float | None = None
    joules: float | None = None


class Status(Answer, frozen=True, kw_only=True):
    """State of the daemon; `uptime` in seconds, `address` is null if TCP is off, `pulls` run.

    `costs` are those of local models since the start, and of the latest answers of remote ones.
    """

    version: str
    pid: int = 0
    uptime: float = 0.0
    socket: str = ""
    address: str | None = None
    default_model: str = ""
    memory: MemoryGauges = MemoryGauges()
    models: list[LoadedModel] = []
    devices: list[DeviceGauges] = []
    pulls: list[DownloadProgress] = []
    costs: list[AnswerCost] = []


class GaugesEvent(Answer, frozen=True):
    """Readings that change while the daemon works."""

    memory: MemoryGauges = MemoryGauges()
    models: list[LoadedModel] = []
    devices: list[DeviceGauges] = []


class PageGroupGauge(Answer, frozen=True, kw_only=True):
    """Pages of the KV cache that were last used by the same conversations at the same time.

    `conversations` are ordered by last use, running ones first; "" stands for requests that named
    none. `tokens` is what all these pages hold; `idle_seconds` is the time since their last use, 0
    while `running`.
    """

    conversations: list[str] = []
    running: bool = False
    tokens: int = 0
    idle_seconds: float = 0.0


class PagesEvent(Answer, frozen=True, kw_only=True):
    """A model's KV cache, page by page.

    `runs` are (index into `groups`, or -1 for free; number of pages) in the order of the pages, of
    `page_tokens` tokens each; a page that several groups share counts for the one with the largest
    part of it. `memory_tokens` and `disk_tokens` are stored outside of the cache.
    `evicted_pages_total` counts since the model was loaded.
    """

    model: str
    page_tokens: int
    pages: int
    groups: list[PageGroupGauge] = []
    runs: list[tuple[int, int]] = []
    memory_tokens: int = 0
    disk_tokens: int = 0
    evicted_pages_total: int = 0


class ShuttingDownNotice(Answer, frozen=True):
    """The daemon ends once running answers are finished."""

    status: Literal["shutting down"] = "shutting down"
