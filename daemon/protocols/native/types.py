"""The wire types of the native API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.load_spec import Quantize
from ingle.backends.registry.engines import engine_choices
from ingle.models.download.pull_progress import PullProgress
from ingle.models.kv_type import KVType
from ingle.models.metadata.stored_model import UnusableModel
from ingle.models.model_task import ModelTask

from ...load_planning.fit_forecast import ModelFit
from ...machine.device_meters import DeviceGauges
from ...machine.memory_reader import MemorySnapshot
from ...model_process.loaded_model import LoadedModel
from ..ingle_options import IngleOptions
from ..openai.completions.messages import Conversation
from ..openai.completions.tools import ToolChoiceField, ToolSpec
from ..sampling_options import SamplingOptions, TokenCount
from ..structured_output import StructuredOutputs

Reference = Annotated[str, Meta(min_length=1, max_length=4096)]
AnswerFormat = Literal["json"] | StructuredOutputs
KeepAlive = Annotated[float, Meta(ge=-1, le=10**9, description="seconds; -1 is for ever")]

if TYPE_CHECKING:
    EngineChoice = str
else:
    EngineChoice = Literal[engine_choices()]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon itself; `address` is null when TCP is off."""

    version: str
    pid: int
    uptime: float
    socket: str
    address: str | None
    default_model: str
    memory: MemorySnapshot
    models: list[LoadedModel]
    devices: list[DeviceGauges] = []


class GaugesEvent(msgspec.Struct, frozen=True):
    """What moves while the daemon works."""

    memory: MemorySnapshot
    models: list[LoadedModel]
    devices: list[DeviceGauges] = []


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is installed, or that the catalog offers.

    `place` names the program or the folder that keeps it, and is empty for ingle's own; `same_as`
    is a model with the very same weights. `error` is what its process ended of, if that failed, and
    `quarantined_for` the seconds until it may start again after too many deaths.
    """

    name: str
    installed: bool
    state: Literal[
        "available", "downloading", "stopped", "starting", "ready", "draining", "stopping", "failed"
    ]
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
    task: ModelTask
    fit: ModelFit
    draft: str | None = None
    place: str = ""
    same_as: str | None = None
    notes: list[str] = []
    error: str | None = None
    quarantined_for: float = 0.0


class ModelEntries(msgspec.Struct, frozen=True):
    """Installed models first, then what the catalog offers; the downloads that run.

    `disk_free` is the room for more, in bytes; `unusable` is what other programs have and ingle
    cannot run.
    """

    models: list[ModelEntry]
    pulls: list[PullProgress] = []
    disk_free: int = 0
    unusable: list[UnusableModel] = []


class ModelRequest(msgspec.Struct, frozen=True):
    """Names a model."""

    model: Reference


class AddRequest(msgspec.Struct, frozen=True):
    """A file or folder that lies on this machine, as an absolute path, and a name for it."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    name: Reference | None = None


class LoadRequest(msgspec.Struct, frozen=True):
    """`context` in tokens, `draft` a model or "off", `pooling` for models that embed.

    A model that is pinned (`pin`) stays until it is unloaded, or let go with false. `engine` is as
    in the configuration, which decides what is left out.
    """

    model: Reference
    context: TokenCount | None = None
    engine: EngineChoice | None = None
    kv_type: KVType | None = None
    quantize: Quantize | None = None
    draft: Reference | None = None
    pooling: Literal["mean", "cls", "last"] | None = None
    keep_alive: KeepAlive | None = None
    pin: bool | None = None


class UnloadRequest(msgspec.Struct, frozen=True):
    """Without a model, all."""

    model: Reference | None = None


class Unloaded(msgspec.Struct, frozen=True):
    """The models whose process has ended."""

    unloaded: list[str]


class Removed(msgspec.Struct, frozen=True):
    """The model that is gone (or would be), and the bytes that are free again.

    `keeps` are its files that stay because `place` keeps them, `files` those that go;
    `shared_with` are models that have the same file; `running` answers end first.
    """

    removed: str
    freed: int
    files: list[str] = []
    keeps: list[str] = []
    place: str = ""
    shared_with: list[str] = []
    loaded: bool = False
    running: int = 0


class PullCancelling(msgspec.Struct, frozen=True):
    """Whether there was a download to stop."""

    model: str
    cancelled: bool


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much to think; after `budget` tokens of thought the answer begins."""

    enabled: bool | None = None
    effort: Literal["low", "medium", "high"] | None = None
    budget: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class GenerationRequest(IngleOptions, frozen=True, kw_only=True):
    """A conversation in `messages` or raw text in `prompt`; without a model, the default one.

    `format` is what the answer must match. `tools` are functions as in OpenAI's chats, and the same
    without the wrapping. An answer that `continues` goes on with the last message. What the other
    protocols say in `ingle` may stand there or beside it. A client that chose the `id` finds the
    generation by it even where this request's answer never reached it.
    """

    id: Annotated[str, Meta(pattern=r"^gen-[0-9a-f]{24,64}(?!\n)$")] | None = None
    ingle: IngleOptions | None = None
    model: Reference | None = None
    messages: Conversation | None = None
    prompt: str | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningOptions | None = None
    continues: bool | None = None
    sampling: SamplingOptions = msgspec.field(default_factory=SamplingOptions)
    format: AnswerFormat | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    stop: str | list[str] | None = None


class TokensRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as a generation takes it; with `load` the model is loaded where it is not."""

    model: Reference | None = None
    messages: Conversation
    tools: list[ToolSpec] | None = None
    tool_choice: ToolChoiceField | None = None
    reasoning: ReasoningOptions | None = None
    continues: bool | None = None
    load: bool = False


class TokenCounts(msgspec.Struct, frozen=True):
    """Tokens of the whole prompt, and of each message with the template's words around it.

    `rest` belongs to no message: what the template puts before the first one, and the words that
    open the answer. `total` is the sum of all; `context` is what a request may have.
    """

    total: int
    messages: list[int]
    rest: int
    context: int


class GenerationStarted(msgspec.Struct, frozen=True):
    """The generation's id, under which its events are."""

    id: str
    model: str


class ShuttingDownNotice(msgspec.Struct, frozen=True):
    """The daemon ends once running answers are finished."""

    status: Literal["shutting down"] = "shutting down"


class Health(msgspec.Struct, frozen=True):
    """The daemon answers."""

    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """The model produced a token; `seconds` is what loading and the token took."""

    status: Literal["ready"]
    model: str
    seconds: float
