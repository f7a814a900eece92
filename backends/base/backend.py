"""The face every way of running a model shows to the daemon: requests in, events out."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from enum import StrEnum
from typing import Literal, Protocol

import msgspec

from ingle.models.file_stamp import FileStamp
from ingle.models.kv_type import KVType
from ingle.models.model_task import ModelTask, Pooling

from .conversation import ChatMessage, Infill, Reasoning, TemplateVariables, Tool, ToolChoice
from .kv_page_map import PagesSink

SpeculationKind = Literal["auto", "off", "ngram", "draft"]
EngineChoice = Literal["auto", "cuda", "llama.cpp"]
Device = Literal["auto", "cuda", "cpu"]
Dtype = Literal["auto", "f32", "f16", "bf16"]
Quantize = Literal["none", "nf4"]


class FinishReason(StrEnum):
    """Why a sequence ended, in OpenAI's words where it has them."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CANCELLED = "cancelled"


class Priority(StrEnum):
    """Whether somebody waits for the answer, or it may take its time."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the next token is chosen; `temperature` 0 is greedy.

    The steps come in llama.cpp's order: `logit_bias`, penalties, DRY, `top_n_sigma`, `top_k`,
    `typical_p`, `top_p`, `min_p`, XTC, temperature (`dynatemp_range` around it), then the draw.
    `mirostat` 1 or 2 takes the place of everything between DRY and the draw but the temperature.

    Penalties count the last `repeat_last_n` generated tokens (-1: all of them) and never the
    prompt, so that an answer may quote it. DRY looks back on `dry_penalty_last_n` tokens (-1: as
    far as the context goes), those of the prompt included, as llama-server does.
    """

    temperature: float = 0.8
    top_p: float = 0.95
    top_k: int = 40
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repeat_last_n: int = -1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    logit_bias: dict[int, float] = {}
    seed: int | None = None

    @property
    def is_plain_greedy(self) -> bool:
        """True where the next token is the largest raw logit, so that no sampler is needed."""
        return (
            self.temperature <= 0
            and not self.logit_bias
            and not self.has_penalties
            and not self.has_dry
        )

    @property
    def has_penalties(self) -> bool:
        """True where earlier tokens change the probabilities of later ones."""
        return self.repeat_last_n != 0 and (
            self.repeat_penalty != 1.0
            or self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
        )

    @property
    def has_dry(self) -> bool:
        """True where repeating what was said before grows dearer with its length."""
        return self.dry_multiplier != 0.0 and self.dry_penalty_last_n != 0


class GrammarKind(StrEnum):
    """The languages a constraint on the answer may be written in."""

    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    LARK = "lark"
    GBNF = "gbnf"


class Grammar(msgspec.Struct, frozen=True, omit_defaults=True):
    """What every answer to a request must match, whole; `param` is the field that says so.

    A `lenient` schema is followed as far as its keywords are supported; else an unsupported one is
    a reason to reject the request.
    """

    kind: GrammarKind
    text: str
    lenient: bool = False
    param: str = "grammar"


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request to a loaded model: exactly one of `messages`, `prompt` and `infill` is set.

    A `prompt` is raw text (special tokens in it are recognised) or token ids. The answer to
    `messages` is told apart into reasoning, calls of `tools` and text, unless it is `raw`; one that
    `continues` goes on where the last message, an assistant's, breaks off. `n` sequences share
    the prompt and differ in `index`; a given seed makes sequence i use seed + i. Without
    `max_tokens` a sequence may fill the context; with 0 the prompt is computed and kept, and
    nothing is generated. `max_context` bounds prompt and answer together more tightly than the
    model does. A sequence ends with `length` after `max_seconds` of writing.
    What is `private` is never written to disk. Without `speculation` each step yields one token,
    which changes nothing but the speed.
    Requests of one `priority` are served fairly among the `client`s that are waiting. The
    `conversation` names what pages of the KV cache belong to, and changes nothing.
    `logprobs` asks for log-probabilities of the tokens, and of so many likely ones beside each.
    The `grammar` is of the text, not of reasoning or of calls.
    """

    id: str
    messages: list[ChatMessage] | None = None
    prompt: str | list[int] | None = None
    infill: Infill | None = None
    tools: list[Tool] = []
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    reasoning: Reasoning = Reasoning()
    template_variables: TemplateVariables = {}
    continues: bool = False
    raw: bool = False
    sampling: SamplingParams = SamplingParams()
    max_tokens: int | None = None
    max_context: int | None = None
    max_seconds: float | None = None
    stop: list[str] = []
    n: int = 1
    ignore_eos: bool = False
    private: bool = False
    speculation: bool = True
    priority: Priority = Priority.INTERACTIVE
    client: str = ""
    conversation: str = ""
    logprobs: int | None = None
    grammar: Grammar | None = None


class Started(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """The request was admitted; its prompt has this many tokens, so many of them already in KV."""

    id: str
    prompt_tokens: int
    cached_tokens: int = 0


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """A token with the natural logarithm of its probability, and the likeliest ones in its place.

    Probabilities are the model's own: before penalties, temperature, cuts and grammar.
    """

    token_id: int
    logprob: float
    top: list[tuple[int, float]] = []


class Delta(msgspec.Struct, frozen=True, array_like=True, tag="delta"):
    """Text of one sequence that is final and whole UTF-8, and the tokens consumed for it.

    `logprobs` has one entry a token, where they were asked for; `token_bytes` then says what each
    token in them stands for.
    """

    id: str
    index: int
    text: str
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    token_bytes: dict[int, bytes] | None = None


class ReasoningDelta(msgspec.Struct, frozen=True, array_like=True, tag="reasoning"):
    """What a model thinks before it answers, piece by piece as `Delta`."""

    id: str
    index: int
    text: str
    token_ids: list[int]


class ToolCallStarted(msgspec.Struct, frozen=True, array_like=True, tag="call"):
    """One sequence calls the tool `name`; `call` counts its calls from 0."""

    id: str
    index: int
    call: int
    call_id: str
    name: str
    token_ids: list[int]


class ToolCallDelta(msgspec.Struct, frozen=True, array_like=True, tag="arguments"):
    """A piece of a call's arguments: all of them together are the text of a JSON object."""

    id: str
    index: int
    call: int
    arguments: str
    token_ids: list[int]


class Finished(msgspec.Struct, frozen=True, array_like=True, tag="finished"):
    """One sequence ended; times are seconds of wall clock.

    `queue_seconds` runs until the first prompt token was computed, `prompt_seconds` until the
    first token was sampled, `decode_seconds` until the last. Of `drafted_tokens` guesses,
    `accepted_tokens` are part of the completion, and so are the `reasoning_tokens`. `stop` is the
    stop string that ended it. `prompt_tokens` and `cached_tokens` are those of a prompt that were
    not known when it `Started`: a provider elsewhere tells them last.
    """

    id: str
    index: int
    reason: FinishReason
    completion_tokens: int
    queue_seconds: float = 0.0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    reasoning_tokens: int = 0
    stop: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0


Event = Started | Delta | ReasoningDelta | ToolCallStarted | ToolCallDelta | Finished

EventSink = Callable[[list[Event]], None]
"""Takes the events that one step had for one request; called on the event loop."""


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Texts, or token ids that are taken as they are, to be turned into one vector each.

    `dimensions` cuts the vectors to that length and normalises them again. `truncate` cuts a text
    that is too long; without it, it is refused.
    """

    id: str
    inputs: list[str | list[int]]
    dimensions: int | None = None
    truncate: bool = False


class Embedded(msgspec.Struct, frozen=True, tag="embedded"):
    """Vectors of length 1 in the order of the inputs: `dimensions` float32, little-endian, each."""

    id: str
    vectors: bytes
    dimensions: int
    prompt_tokens: int


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Documents to be scored for a query; `truncate` cuts those that are too long for it."""

    id: str
    query: str
    documents: list[str]
    truncate: bool = False


class Reranked(msgspec.Struct, frozen=True, tag="reranked"):
    """A score from 0 to 1 for each document, in the order of the request."""

    id: str
    scores: list[float]
    prompt_tokens: int


class TokenizeRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be turned into tokens as it would be for an answer, or from tokens into text.

    One of `generate` (its prompt), `text` and `token_ids` is set. A `text` gets the tokens around
    a whole one with `add_special`; control tokens written out in it count with `parse_special`.
    Of a prompt that is `divided` nothing is told but how many tokens each message takes.
    """

    id: str
    generate: GenerateRequest | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    add_special: bool = False
    parse_special: bool = True
    divided: bool = False


class Tokenized(msgspec.Struct, frozen=True, tag="tokenized"):
    """The tokens, the bytes of each, and the text before it was cut into tokens, where one was.

    Of a divided prompt there is nothing of these but the number of tokens of each message, in
    `message_tokens`, and of what belongs to none.
    """

    id: str
    token_ids: list[int]
    pieces: list[bytes]
    text: str | None = None
    message_tokens: list[int] = []
    rest_tokens: int = 0


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a loaded model really got; sizes in bytes.

    `context` is the number of tokens one request may use, prompt and answer together. The KV cache
    of `kv_capacity` tokens is shared by `slots` sequences. `draft` is the file of the model that
    guesses along, `draft_note` says why there is none although one was to be. A model that embeds
    gives vectors of `dimensions` numbers, and takes `slots` texts of `context` tokens at most in
    one batch.
    """

    engine: str
    device: str
    architecture: str
    parameters: int
    vocab_size: int
    trained_context: int
    context: int
    slots: int
    kv_capacity: int
    has_chat_template: bool
    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    layers: int = 0
    layers_on_gpu: int = 0
    kv_type: KVType = KVType.F16
    flash_attention: bool = False
    warnings: list[str] = []
    """What was asked for and could not be had; one sentence each."""

    speculation: SpeculationKind = "off"
    draft: str | None = None
    draft_note: str | None = None
    task: ModelTask = ModelTask.GENERATE
    dimensions: int = 0
    chat_template: str | None = None
    bos_token: str = ""
    eos_token: str = ""
    infills: bool = False
    """Whether it was trained to fill gaps."""

    reasons: bool = False
    """Whether it can think before it answers."""

    calls_tools: bool = False
    """Whether its template knows tools; others are told of them in words."""


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's state at one moment; totals count since it started.

    `kv_used` cells belong to running sequences, `kv_kept` hold ended ones for requests that begin
    alike; they give way to running ones. `kv_memory_bytes` and `kv_disk_bytes` are what is stored
    of those that gave way, or may. `prompt_rate` and `decode_rate` are measured tokens a second of
    a prompt that is read, and of one answer alone; 0 where nothing was measured yet.
    """

    running: int = 0
    waiting: int = 0
    kv_used: int = 0
    kv_kept: int = 0
    kv_capacity: int = 0
    kv_memory_bytes: int = 0
    kv_disk_bytes: int = 0
    prompt_tokens_total: int = 0
    completion_tokens_total: int = 0
    cached_tokens_total: int = 0
    drafted_tokens_total: int = 0
    accepted_tokens_total: int = 0
    restored_tokens_total: int = 0
    preemptions_total: int = 0
    steps_total: int = 0
    prompt_rate: float = 0.0
    decode_rate: float = 0.0


class EngineKind(StrEnum):
    """The engines a worker can run."""

    LLAMA_CPP = "llama_cpp"
    CUDA = "cuda"
    SCRIPTED = "scripted"


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
    file. `speculation` says whose guesses the model may verify: those looked up in the text
    (`ngram`), of the smaller model at `draft_path` (`draft`), or whichever pay (`auto`).
    ingle's own engine computes on `device`, with activations of `dtype`, and may `quantize` weights
    that are plain numbers while it loads them; llama.cpp goes by `gpu_layers` instead.
    Workers that name the same `compute_lease`, a file they lock, compute in turns. `script` is for
    the scripted engine only. `pooling` takes the place of what the file says, for a `task` other
    than to generate. Without a `kv_store` what ended sequences computed is lost when the KV cache
    needs the room. What has to be compiled for a GPU is kept in the folder `kernel_cache`. Where
    `may_fall_back`, llama.cpp takes over what ingle's own engine cannot load. A worker that is to
    `confine` itself opens only the files that are named here, and no network.
    """

    engine: EngineKind
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
    stamps: list[FileStamp] = []
    """What the model's files were when they were checked."""


LoadProgress = Callable[[float], None]
"""Called on the event loop with the fraction loaded, 0 to 1."""


class Backend(Protocol):
    """A model that can be started, asked, and stopped; one owner calls `start` and `stop`."""

    @property
    def state(self) -> Literal["new", "starting", "ready", "stopping", "dead"]:
        """`dead` is final: make another backend."""
        ...

    @property
    def pid(self) -> int | None:
        """The process that holds the model, where there is one."""
        ...

    @property
    def gauges(self) -> Gauges:
        """The latest gauges the model reported."""
        ...

    async def start(self, on_progress: LoadProgress | None = None) -> ModelInfo:
        """Load the model; raises `LoadFailed` or `WorkerDied`."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        """Yield the request's events until all of its `n` sequences finished.

        Raises `RequestRejected` before the first event, `WorkerDied` at any time. Closing the
        generator cancels what still runs.
        """
        ...

    async def run(self, request: GenerateRequest, sink: EventSink) -> None:
        """`generate` for those who count microseconds: each step's events go straight to `sink`.

        Returns when all sequences finished; raises the same, and what the sink raises, which ends
        the request. Cancelling the call cancels what still runs.
        """
        ...

    async def embed(self, request: EmbedRequest) -> Embedded:
        """Turn texts into vectors; raises as `generate` does. A cancelled call ends the work."""
        ...

    async def rerank(self, request: RerankRequest) -> Reranked:
        """Score documents for a query; raises as `generate` does."""
        ...

    async def tokenize(self, request: TokenizeRequest) -> Tokenized:
        """Turn a prompt or a text into tokens, or tokens into text; raises as `generate` does."""
        ...

    async def wait_dead(self) -> str:
        """Return once the backend is dead, with a sentence that says why."""
        ...

    def trim(self) -> None:
        """Ask for the memory back that only serves to compute less later."""
        ...

    def watch_pages(self, sink: PagesSink | None) -> None:
        """Have `sink` get the page map now, and when it moves, at most four times a second.

        None ends that; so does another sink. A model that embeds has no pages to tell of.
        """
        ...

    async def stop(self, grace: float = 5.0) -> None:
        """End the model; sequences that do not end in `grace` seconds get `WorkerDied`.

        They get less than that where what was computed has to be saved.
        """
        ...
