"""llama-server's wire types, as far as they are served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ...http.field_policy import FieldPolicy
from ..answer_values import PromptProgress, Timings
from ..field_policies import LLAMA_CPP_FIELDS
from ..ingle_options import IngleOptions
from .sampling import Number, SamplingFields

Piece = str | int


class PromptObject(msgspec.Struct):
    """A prompt as an object, with pictures in base64 for the marks in its text."""

    prompt_string: str | list[Piece]
    multimodal_data: list[str] | None = None


ResponseFields = Annotated[list[Annotated[str, Meta(max_length=200)]], Meta(max_length=256)]
Prompt = str | PromptObject | list[Piece | list[Piece] | PromptObject]
StopType = Literal["none", "eos", "word", "limit"]


class LoraScale(msgspec.Struct, frozen=True):
    """How much of the adapter with a number is added to the weights; 0 for nothing."""

    id: int
    scale: float


class LoraAdapter(msgspec.Struct, frozen=True):
    """An adapter of a model; none is used unless a request names it."""

    id: int
    path: str
    scale: float = 0.0
    task_name: str = ""
    prompt_prefix: str = ""


class GenerationFields(SamplingFields, kw_only=True):
    """The common fields of /completion and /infill; unknown fields are ignored."""

    field_policy: ClassVar[FieldPolicy] = LLAMA_CPP_FIELDS

    model: str | None = None
    stream: bool | None = None
    n_predict: Number | None = None
    max_tokens: Number | None = None
    max_completion_tokens: Number | None = None
    n_cmpl: Number | None = None
    n: Number | None = None
    n_indent: Number | None = None
    n_probs: Number | None = None
    t_max_predict_ms: Number | None = None
    stop: str | list[str] | None = None
    lora: list[LoraScale] | None = None
    id_slot: Number | None = None
    ignore_eos: bool | None = None
    grammar: str | None = None
    json_schema: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    response_fields: ResponseFields | None = None
    return_tokens: bool | None = None
    return_progress: bool | None = None
    timings_per_token: bool | None = None
    ingle: IngleOptions | None = None


class CompletionRequest(GenerationFields, kw_only=True):
    """The body of `POST /completion`: one prompt, or a list of several."""

    prompt: Prompt


class ExtraFile(msgspec.Struct):
    """A piece of another file."""

    text: str
    filename: str | None = None


class InfillRequest(GenerationFields, kw_only=True):
    """The body of `POST /infill`: `prompt` is the beginning of what fills the gap."""

    input_prefix: str
    input_suffix: str
    input_extra: list[ExtraFile] | None = None
    prompt: str | None = None


class TokenProbability(msgspec.Struct, frozen=True):
    """A token with the natural logarithm of its probability."""

    id: int
    token: str
    bytes: list[int]
    logprob: float


class TokenProbabilities(TokenProbability, frozen=True):
    """A token of the answer, and the likeliest ones in its place."""

    top_logprobs: list[TokenProbability]


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream; the last one is a `Completion`."""

    index: int
    content: str
    tokens: list[int]
    stop: Literal[False] = False
    id_slot: int = -1
    tokens_predicted: int
    tokens_evaluated: int
    timings: Timings | UnsetType = UNSET
    prompt_progress: PromptProgress | UnsetType = UNSET
    completion_probabilities: list[TokenProbabilities] | UnsetType = UNSET


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, or the last event of its stream; `response_fields` may choose some of these.

    `tokens_evaluated` counts the prompt, `tokens_cached` what the context holds now.
    """

    index: int
    content: str
    tokens: list[int]
    id_slot: int = -1
    stop: Literal[True] = True
    model: str
    tokens_predicted: int
    tokens_evaluated: int
    generation_settings: dict[str, Any]
    prompt: str
    has_new_line: bool
    truncated: bool
    stop_type: StopType
    stopping_word: str
    tokens_cached: int
    timings: Timings
    completion_probabilities: list[TokenProbabilities] | UnsetType = UNSET


class TokenizeBody(msgspec.Struct):
    """The body of `POST /tokenize`; numbers in `content` are tokens already."""

    content: str | list[Piece] | None = None
    model: str | None = None
    add_special: bool | None = None
    parse_special: bool | None = None
    with_pieces: bool | None = None


class TokenPiece(msgspec.Struct, frozen=True):
    """A token and its text, or where that is none, its bytes."""

    id: int
    piece: str | list[int]


class Tokens(msgspec.Struct, frozen=True):
    """The answer of `POST /tokenize`."""

    tokens: Sequence[int | TokenPiece]


class DetokenizeBody(msgspec.Struct):
    """The body of `POST /detokenize`."""

    tokens: Annotated[list[int], Meta(max_length=2**20)] | None = None
    model: str | None = None


class Content(msgspec.Struct, frozen=True):
    """The answer of `POST /detokenize`."""

    content: str


class RenderedPrompt(msgspec.Struct, frozen=True):
    """The answer of `POST /apply-template`."""

    prompt: str
