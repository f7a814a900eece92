"""Request types of the native API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from ingle.backends.base.load_spec import Quantize
from ingle.backends.registry.engines import engine_choices
from ingle.models.kv_type import KVType
from ingle.models.parallel.share import MOST_RANKS

from ...routing.policy.policy_tables import Words
from ..ingle_options import IngleOptions
from ..openai.completions.messages import Conversation
from ..openai.completions.request_types import ToolChoiceField, ToolSpec
from ..request_options import SamplingOptions, StructuredOutputs, TokenCount

Reference = Annotated[str, Meta(min_length=1, max_length=4096)]
AnswerFormat = Literal["json"] | StructuredOutputs
KeepAlive = Annotated[float, Meta(ge=-1, le=10**9, description="seconds; -1 is forever")]

if TYPE_CHECKING:
    EngineChoice = str
else:
    EngineChoice = Literal[engine_choices()]


class ModelRequest(msgspec.Struct, frozen=True):
    """Names a model."""

    model: Reference


class EngineRequest(msgspec.Struct, frozen=True):
    """Names an engine of `GET /ingle/v1/engines`."""

    engine: Reference


class InstallRequest(msgspec.Struct, frozen=True):
    """`source` is an index, or a folder of wheels, in place of the setting `engine_index`."""

    engine: Reference
    source: Reference | None = None


class AddRequest(msgspec.Struct, frozen=True):
    """A file or folder on this machine, as an absolute path, and a name for it.

    `mmproj` is the absolute path of its projector, with which it sees pictures; without it, one
    beside the file is used.
    """

    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    name: Reference | None = None
    mmproj: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None


class LoadRequest(msgspec.Struct, frozen=True):
    """`context` in tokens, `draft` a model or "off", `pooling` for models that embed.

    A pinned model (`pin`) stays loaded until it is unloaded, or unpinned with false. Fields that
    are left out have the values of the configuration.
    """

    model: Reference
    context: TokenCount | None = None
    engine: EngineChoice | None = None
    kv_type: KVType | None = None
    quantize: Quantize | None = None
    tensor_parallel: Annotated[int, Meta(ge=1, le=MOST_RANKS)] | None = None
    draft: Reference | None = None
    pooling: Literal["mean", "cls", "last"] | None = None
    keep_alive: KeepAlive | None = None
    pin: bool | None = None


class PrepareRequest(msgspec.Struct, frozen=True):
    """A model, and a program of `ingle connect` that will use it."""

    model: Reference
    agent: Reference


class UnloadRequest(msgspec.Struct, frozen=True):
    """Names a model; without one, all are unloaded."""

    model: Reference | None = None


class NativeReasoning(msgspec.Struct, frozen=True, kw_only=True):
    """The effort and budget of reasoning; after `budget` tokens of reasoning the answer starts."""

    enabled: bool | None = None
    effort: Literal["low", "medium", "high"] | None = None
    budget: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class GenerationRequest(IngleOptions, frozen=True, kw_only=True):
    """A conversation in `messages` or raw text in `prompt`; without a model, the default one.

    `format` is what the answer must match. `tools` are functions as in OpenAI's chats, or without
    the wrapping object. With `continues` the answer continues the last message. The options that
    other protocols have in `ingle` may be there or at the top level. A client that chose the `id`
    finds the generation even if the response to this request was lost. One that is `attached` is
    cancelled when no client has followed its events for ten seconds.
    """

    id: Annotated[str, Meta(pattern=r"^gen-[0-9a-f]{24,64}(?!\n)$")] | None = None
    attached: bool | None = None
    ingle: IngleOptions | None = None
    model: Reference | None = None
    messages: Conversation | None = None
    prompt: str | None = None
    tools: list[ToolSpec] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    reasoning: NativeReasoning | None = None
    continues: bool | None = None
    sampling: SamplingOptions = msgspec.field(default_factory=SamplingOptions)
    format: AnswerFormat | None = None
    max_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    stop: str | list[str] | None = None


MaskedValues = Annotated[
    tuple[Annotated[str, Meta(min_length=1, max_length=2_000)], ...], Meta(max_length=100)
]


class ExplainRequest(GenerationRequest, frozen=True, kw_only=True):
    """A `text` alone, or the body of a generation.

    With `override` consent can be given even to text with findings of the class `never`. `hide`
    are values to mask, and `show` found values that are not masked; without both, those that the
    conversation's last consent was given for.
    """

    text: Annotated[str, Meta(max_length=2**26)] | None = None
    override: Literal["never"] | None = None
    hide: MaskedValues | None = None
    show: MaskedValues | None = None


class WordsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`words` that keep a text on this machine, and `public` ones, which are not reported."""

    words: Words = ()
    public: Words = ()


PlainName = Annotated[str, Meta(pattern=r"^[!-~]{1,253}(?!\n)$")]
ByteCount = Annotated[int, Meta(ge=0, le=2**53)]


class ToolDeparture(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a tool is about to send to the host `destination`, in printable ASCII."""

    tool: PlainName
    destination: PlainName


class ToolReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended."""

    bytes_out: ByteCount
    bytes_in: ByteCount
    seconds: Annotated[float, Meta(ge=0, le=1e6)]
    outcome: Literal["complete", "cancelled", "refused", "failed"]


class TokensRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as for a generation; with `load` the model is loaded if it is not."""

    model: Reference | None = None
    messages: Conversation
    tools: list[ToolSpec] | None = None
    tool_choice: ToolChoiceField | None = None
    reasoning: NativeReasoning | None = None
    continues: bool | None = None
    load: bool = False


class Health(msgspec.Struct, frozen=True):
    """The daemon answers."""

    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """The model generated a token; `seconds` is the time of loading and of the token."""

    status: Literal["ready"]
    model: str
    seconds: float
