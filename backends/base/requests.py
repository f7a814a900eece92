"""Requests to a loaded model: generation, embedding, reranking, tokenisation."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .conversation import ChatMessage, Infill, Reasoning, TemplateVariables, Tool, ToolChoice
from .sampling_params import Grammar, SamplingParams


class Priority(StrEnum):
    """Whether a user waits for the answer, or a batch job."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


class GenerateRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="generate"
):
    """One request to a loaded model: exactly one of `messages`, `prompt` and `infill` is set.

    A `prompt` is raw text (special tokens in it are recognised) or token ids. The answer to
    `messages` is parsed into reasoning, calls of `tools` and text, unless it is `raw`; one that
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


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="embed"):
    """Texts, or token ids that are taken as they are, to be turned into one vector each.

    `dimensions` cuts the vectors to that length and normalises them again. `truncate` cuts a text
    that is too long; without it, it is refused.
    """

    id: str
    inputs: list[str | list[int]]
    dimensions: int | None = None
    truncate: bool = False


class RerankRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rerank"):
    """Documents to be scored for a query; `truncate` cuts those that are too long for it."""

    id: str
    query: str
    documents: list[str]
    truncate: bool = False


class TokenizeRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tokenize"
):
    """What is to be turned into tokens as it would be for an answer, or from tokens into text.

    One of `generate` (its prompt), `text` and `token_ids` is set. A `text` gets the tokens around
    a whole one with `add_special`; control tokens written out in it count with `parse_special`.
    For a `divided` prompt, only the number of tokens of each message is returned.
    """

    id: str
    generate: GenerateRequest | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    add_special: bool = False
    parse_special: bool = True
    divided: bool = False
