"""Requests to a loaded model: generation, embedding, reranking, tokenisation."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .conversation import (
    ChatMessage,
    Infill,
    Picture,
    Reasoning,
    TemplateVariables,
    Tool,
    ToolChoice,
)
from .sampling_params import Grammar, SamplingParams


class Priority(StrEnum):
    """Whether a user or a batch job waits for the answer."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class GenerateRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="generate"
):
    """One request to a loaded model: exactly one of `messages`, `prompt` and `infill` is set.

    A `prompt` is raw text (special tokens in it are recognised), maybe with `pictures` before
    characters of it, or token ids. The answer to
    `messages` is parsed into reasoning, calls of `tools` and text, unless it is `raw`; one that
    `continues` appends to the last message, an assistant's. `n` sequences share the prompt and
    differ in `index`; with a seed, sequence i uses seed + i. Without `max_tokens` a sequence may
    fill the context; with 0 the prompt is prefilled and cached, and nothing is generated.
    `max_context` is a tighter limit of prompt and answer together than the model's context; a
    prompt that does not leave `answer_space` tokens of it is rejected, too. A sequence ends with
    `length` after `max_seconds` of decoding, and with `stop` after any of `stop_token_ids`, which
    is part of the answer.
    KV of a `private` request is never written to disk. Without `speculation` each step yields one
    token, which changes only the speed.
    Requests of one `priority` are scheduled fairly among the waiting `client`s. `conversation`
    labels pages of the KV cache, and has no effect on the answer.
    With `reports_progress` there is a `PromptAdvanced` for each step that reads the prompt.
    `logprobs` requests log-probabilities of the tokens, and of that many alternatives of each;
    `prompt_logprobs` those of the prompt's tokens, for which nothing of it is taken from the cache,
    and `n` must be 1.
    A template shows `shown_tools`, if there are any, instead of `tools`, whose calls are parsed.
    The `grammar` applies to the text, not to reasoning or calls. `adapter` is the folder of a LoRA
    adapter of the model that computes the answer.
    """

    id: str
    messages: list[ChatMessage] | None = None
    prompt: str | list[int] | None = None
    pictures: list[Picture] = []
    infill: Infill | None = None
    tools: list[Tool] = []
    shown_tools: list[Tool] = []
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    reasoning: Reasoning = Reasoning()
    template_variables: TemplateVariables = {}
    continues: bool = False
    raw: bool = False
    sampling: SamplingParams = SamplingParams()
    max_tokens: int | None = None
    max_context: int | None = None
    answer_space: int = 0
    max_seconds: float | None = None
    stop: list[str] = []
    n: int = 1
    ignore_eos: bool = False
    stop_token_ids: list[int] = []
    private: bool = False
    speculation: bool = True
    priority: Priority = Priority.INTERACTIVE
    client: str = ""
    conversation: str = ""
    reports_progress: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    grammar: Grammar | None = None
    adapter: str = ""

    @property
    def several_calls(self) -> bool:
        """Whether an answer may call more than once; a tool demanded by name is called once."""
        choice = self.tool_choice
        is_named = choice.mode == "required" and len(choice.names) == 1
        return self.parallel_tool_calls and not is_named


def shows_pictures(request: GenerateRequest) -> bool:
    """Return whether a model must see to answer.

    In results of tools, which an agent cannot take back, a note replaces a picture otherwise.
    """
    said = request.messages or ()
    return bool(request.pictures) or any(m.pictures and m.role != "tool" for m in said)


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="embed"):
    """Texts to embed, one vector each; token ids are used unchanged.

    `dimensions` truncates the vectors and normalises them again. With `truncate` a text that is too
    long is cut, else it is rejected.
    """

    id: str
    inputs: list[str | list[int]]
    dimensions: int | None = None
    truncate: bool = False


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rerank"):
    """Documents to score for a query; `truncate` cuts those that are too long."""

    id: str
    query: str
    documents: list[str]
    truncate: bool = False


class TokenizeRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tokenize"
):
    """A prompt or a text to tokenise, or tokens to turn into text.

    One of `generate` (its prompt), `text` and `token_ids` is set. With `add_special` a `text` gets
    BOS and EOS as a whole text does; with `parse_special` control tokens in it are recognised. For
    a `divided` prompt, only the number of tokens of each message is returned.
    """

    id: str
    generate: GenerateRequest | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    add_special: bool = False
    parse_special: bool = True
    divided: bool = False
