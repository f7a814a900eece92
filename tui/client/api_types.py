"""The payloads of the daemon's native API, as far as the chat reads them (docs/api.md)."""

from __future__ import annotations

import msgspec

from ..text.terminal_safe_text import clean

LONG_WORDS = ("message", "hint")
"""Fields whose words may take several lines."""


class Payload(msgspec.Struct, frozen=True):
    """Something the daemon tells; its words are safe to show on a terminal once it is decoded."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            if isinstance(value, str) and not value.isprintable():
                shown = clean(value)
                words = shown if name in LONG_WORDS else shown.replace("\n", " ")
                msgspec.structs.force_setattr(self, name, words)


class ErrorBody(Payload, frozen=True):
    """What went wrong: a stable code, a sentence for people, and what to do next."""

    message: str
    code: str | None = None
    hint: str | None = None


class ErrorEnvelope(Payload, frozen=True):
    """The shape every error arrives in."""

    error: ErrorBody


class LoadedModel(Payload, frozen=True, kw_only=True):
    """A model with a process, or the trace of one that failed; context and KV are in tokens.

    `prompt_rate` and `decode_rate` are measured tokens a second of a prompt that is read, and of
    one answer; 0 where nothing was measured yet.
    """

    name: str
    state: str
    fraction: float = 0.0
    error: ErrorBody | str | None = None
    device: str = ""
    engine: str = ""
    context: int = 0
    slots: int = 0
    kv_capacity: int = 0
    kv_used: int = 0
    kv_kept: int = 0
    kv_memory_bytes: int = 0
    kv_disk_bytes: int = 0
    running: int = 0
    waiting: int = 0
    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    rss: int = 0
    layers: int = 0
    layers_on_gpu: int = 0
    kv_type: str = ""
    speculation: str = "off"
    draft: str | None = None
    prompt_tokens_total: int = 0
    completion_tokens_total: int = 0
    drafted_tokens_total: int = 0
    accepted_tokens_total: int = 0
    preemptions_total: int = 0
    prompt_rate: float = 0.0
    decode_rate: float = 0.0
    loaded_for: float = 0.0
    expires_in: float | None = None

    @property
    def failure(self) -> str | None:
        """The sentence that says why it failed."""
        return self.error.message if isinstance(self.error, ErrorBody) else self.error


class ModelFit(Payload, frozen=True, kw_only=True):
    """Where a model would run (`cuda`, `cpu`), and whether it `fits`, `spills` or does `no`t."""

    device: str
    state: str
    needs_bytes: int = 0
    free_bytes: int = 0
    context: int = 0


class ModelEntry(Payload, frozen=True, kw_only=True):
    """A model that is installed or can be; size in bytes, context in tokens.

    `place` is the program or the folder that keeps it, empty for ingle.
    """

    name: str
    installed: bool
    state: str
    default: bool = False
    size: int | None = None
    parameters: int | None = None
    quantization: str | None = None
    context: int | None = None
    licence: str | None = None
    description: str | None = None
    chat: bool = True
    task: str = "generate"
    path: str | None = None
    draft: str | None = None
    place: str = ""
    fit: ModelFit | None = None

    @property
    def writes(self) -> bool:
        """False for a model that makes vectors or scores of texts."""
        return self.task == "generate"


class Status(Payload, frozen=True, kw_only=True):
    """The answer to `GET /ingle/v1/status`, in part."""

    version: str
    default_model: str | None = None
    models: list[LoadedModel] = []


class PullProgress(Payload, frozen=True, kw_only=True):
    """How far a download is; bytes and seconds, None where not known."""

    model: str
    status: str
    source: str | None = None
    received: int = 0
    total: int | None = None
    bytes_per_second: float | None = None
    eta: float | None = None


class ModelList(Payload, frozen=True):
    """The answer to `GET /ingle/v1/models`; `disk_free` in bytes, 0 where it is not known."""

    models: list[ModelEntry]
    pulls: list[PullProgress] = []
    disk_free: int = 0


class Memory(Payload, frozen=True):
    """The machine's memory, in bytes."""

    total: int = 0
    available: int = 0
    daemon_rss: int = 0


class DeviceGauges(Payload, frozen=True, kw_only=True):
    """A GPU or the processor; bytes, watts and a fraction, None where there is no meter.

    `joules` counts since the daemon began to look.
    """

    name: str
    kind: str
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    watts: float | None = None
    joules: float | None = None


class GaugesEvent(Payload, frozen=True):
    """The `gauges` event of the shared stream, in part."""

    models: list[LoadedModel] = []
    memory: Memory = Memory()
    devices: list[DeviceGauges] = []


class PageGroup(Payload, frozen=True, kw_only=True):
    """Pages with one story: the same conversations ran through them, and left them together.

    Of `conversations`, those that run or ran last come first; "" stands for requests that named
    none. `tokens` is what is in all of them; `idle_seconds` since their last use, 0 while
    `running`.
    """

    conversations: list[str] = []
    running: bool = False
    tokens: int = 0
    idle_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not all(map(str.isprintable, self.conversations)):  # any program may name its own
            labels = [clean(label).replace("\n", " ") for label in self.conversations]
            msgspec.structs.force_setattr(self, "conversations", labels)


class PagesEvent(Payload, frozen=True, kw_only=True):
    """The `pages` event: a model's KV cache, page by page.

    `runs` are (index into `groups`, or -1 for free; number of pages) in the order of the pages, of
    `page_tokens` tokens each; a page that several groups share is told as of the one that has most
    of it. `memory_tokens` and `disk_tokens` are stored outside of the cache.
    """

    model: str
    page_tokens: int
    pages: int
    groups: list[PageGroup] = []
    runs: list[tuple[int, int]] = []
    memory_tokens: int = 0
    disk_tokens: int = 0
    evicted_pages_total: int = 0


class TokenCounts(Payload, frozen=True):
    """The answer to `POST /ingle/v1/tokens`: of the whole prompt, and of each message's part.

    `rest` belongs to no message: what the template puts before the first one, and the words that
    open the answer. `total` is the sum of all.
    """

    total: int
    messages: list[int]
    rest: int = 0
    context: int = 0


class GenerationCreated(Payload, frozen=True):
    """The answer to `POST /ingle/v1/generations`."""

    id: str
    model: str


class Loading(Payload, frozen=True):
    """The model is being started; `fraction` is 0 to 1."""

    model: str
    fraction: float


class Started(Payload, frozen=True):
    """The prompt was admitted; all numbers are tokens."""

    prompt_tokens: int
    cached_tokens: int = 0
    context: int = 0


class TextDelta(msgspec.Struct, frozen=True):
    """New text, and the number of tokens it took."""

    text: str
    tokens: int = 1


class ReasoningDelta(msgspec.Struct, frozen=True):
    """What the model thinks before it answers, and the number of tokens it took."""

    text: str
    tokens: int = 1


class Finished(Payload, frozen=True):
    """The answer ended; tokens and seconds."""

    reason: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    context: int = 0
    queue_seconds: float = 0.0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    reasoning_tokens: int = 0


class Routed(Payload, frozen=True):
    """Where the answer is made; `provider` is "" for this machine."""

    verdict: str = "local"
    rule: str = ""
    reason: str = ""
    provider: str = ""
    model: str = ""
    redacted: list[str] = msgspec.field(default_factory=list[str])

    @property
    def target(self) -> str:
        """Who answers, "" for this machine."""
        return "/".join(filter(None, (self.provider, self.model))) if self.provider else ""


GenerationEvent = Loading | Routed | Started | ReasoningDelta | TextDelta | Finished
