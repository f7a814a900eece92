"""Builds the prompt tokens of a request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from ...base.conversation import ChatMessage
from ...base.errors import ContextExceeded, RequestRejected
from ...base.picture_span import PictureSpan
from ...base.requests import GenerateRequest, shows_pictures
from ..templates.chat_template import ChatTemplate, reject_reserved
from ..templates.reasoning_switches import ReasoningSwitches, reasoning_requested
from ..templates.reasoning_tags import detect_reasoning_tags
from ..templates.template_errors import TemplateError, TemplateRefused
from ..tokenization.tokenizer import Tokenizer, encode_prompt
from .infill import InfillPrompts
from .picture_prompt import (
    PictureEncoder,
    PictureMarks,
    pictures_of,
    pictures_of_request,
    without_pictures,
)

_LONG_TEXT = 2**20
_ANSWER = 512
"""Tokens reserved for an answer if the request does not say."""


class Prompt(NamedTuple):
    """The prompt's tokens, and the text that was tokenised; "" for prompts of tokens and infill.

    The text is without the `pictures`.
    """

    token_ids: list[int]
    text: str
    pictures: tuple[PictureSpan, ...] = ()


class PromptBuilder:
    """Renders, tokenises and bounds prompts; used from one thread."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: ChatTemplate | None,
        *,
        context: int,
        pictures: PictureEncoder | None = None,
    ) -> None:
        """Without a `template`, requests with messages are rejected.

        Without an encoder of `pictures`, those that have some are.
        """
        self._tokenizer = tokenizer
        self._template = template
        self._context = context
        self._pictures = pictures
        self._infills = InfillPrompts(tokenizer)
        source = None if template is None else template.source
        self._switches = None if source is None else ReasoningSwitches(source)
        self._tags = detect_reasoning_tags(source, tokenizer)

    @property
    def infills(self) -> bool:
        """Return whether the model supports infill (FIM)."""
        return self._infills.marks is not None

    def prepare(self) -> None:
        """Compile the template ahead of the first request."""
        if self._template is not None:
            with contextlib.suppress(TemplateError):  # each request will report it
                self._template.check()

    def build(self, request: GenerateRequest) -> Prompt:
        """Return the prompt of a request; raises `RequestRejected`."""
        if isinstance(request.prompt, list):
            return Prompt(request.prompt, "")
        if request.messages is not None:
            for message in request.messages if self._template is not None else []:
                if message.role == "user":  # which no template leaves out
                    self._reject_too_long(message.content)
            if pictures_of(request.messages):
                return self._with_pictures(request, request.messages)
            text = self.render(request)
            self._reject_too_long(text)
            return Prompt(encode_prompt(self._tokenizer, text), text)
        if request.infill is not None:
            return Prompt(
                self._infills.build(request.infill, limit=self._prompt_limit(request)), ""
            )
        text = request.prompt or ""
        self._reject_too_long(text)
        if request.pictures:
            return self._shown(PictureMarks([ChatMessage("user", text, pictures=request.pictures)]))
        return Prompt(self._tokenizer.encode(text, add_special=True, parse_special=True), text)

    def encode_pictures(self, request: GenerateRequest, is_wanted: Callable[[], bool]) -> None:
        """Encode the pictures of a request ahead of `build` while it is wanted; from any thread."""
        for picture in pictures_of_request(request):
            if self._pictures is not None and is_wanted():
                self._pictures.encode(picture)

    def _with_pictures(self, request: GenerateRequest, messages: list[ChatMessage]) -> Prompt:
        if self._pictures is None and not shows_pictures(request):
            blind = [without_pictures(message) for message in messages]
            return self.build(msgspec.structs.replace(request, messages=blind))
        marks = PictureMarks(messages)
        text = self.render(msgspec.structs.replace(request, messages=marks.messages))
        self._reject_too_long(text)
        return self._shown(marks, text)

    def _shown(self, marks: PictureMarks, text: str | None = None) -> Prompt:
        """Return the prompt of a text with marks, by default that of the only message."""
        if self._pictures is None:
            raise RequestRejected(
                "The loaded model reads text only, and the conversation has a picture.",
                hint="Choose a model that `ingle list` marks with 'vision', and load it with "
                "`ingle load MODEL --engine llama.cpp`.",
                code="no_vision",
                param="messages",
            )
        text = marks.messages[0].content if text is None else text
        token_ids, spans = marks.tokens(text, self._tokenizer, self._pictures)
        return Prompt(token_ids, marks.without(text), spans)

    def render(self, request: GenerateRequest, *, opens_answer: bool = True) -> str:
        """Return the text of a request's messages, with or without the words that open the answer.

        Raises `RequestRejected`.
        """
        if self._template is None:
            raise RequestRejected(
                "This model has no chat template: it was not trained for conversations.",
                hint="Have it continue plain text (`ingle run --raw`, or /v1/completions), or "
                "choose an instruction-tuned model.",
                code="no_chat_template",
                param="messages",
            )
        if not opens_answer:
            variables = self._template_variables(request)
            messages = request.messages or []
            return self._template.render(messages, add_generation_prompt=False, **variables)
        last = request.messages[-1] if request.messages else None
        continues = request.continues and last is not None and last.role == "assistant"
        if continues and last is not None and not last.tool_calls:
            return self._continued(request, self._template, last)
        text = self._template.render(request.messages or [], **self._template_variables(request))
        return (
            self._without_reasoning_start(text)
            if reasoning_requested(request.reasoning) is False
            else text
        )

    def _template_variables(self, request: GenerateRequest) -> dict[str, Any]:
        """Return the template's variables besides the messages."""
        reject_reserved(request.template_variables)
        variables = self._switches.variables(request.reasoning) if self._switches else {}
        # Tools that must not be called are not shown.
        shown = request.shown_tools or request.tools
        tools = shown if request.tool_choice.mode != "none" else []
        return {**variables, **request.template_variables, "tools": tools}

    def _continued(
        self, request: GenerateRequest, template: ChatTemplate, last: ChatMessage
    ) -> str:
        """Return a prompt that ends within the last message."""
        messages, variables = request.messages or [], self._template_variables(request)
        try:
            return template.render(messages, continues=True, **variables)
        except TemplateRefused:  # the template may have no field for earlier reasoning
            if last.content or not last.reasoning or self._tags is None:
                raise
        text = template.render(messages[:-1], **variables)
        begins = "" if self._tags.left_open(text) else f"{self._tags.opens[0]}\n"
        return text + begins + last.reasoning

    def _without_reasoning_start(self, text: str) -> str:
        """Append empty reasoning where the model would begin it."""
        tags = self._tags
        if tags is None or self._switches is None or self._template is None:
            return text
        empty = f"\n\n{tags.ending}"
        if tags.left_open(text):
            return text.rstrip() + empty
        # If reasoning is a message of its own, its end tag also ends other messages.
        closes = tuple(close for close in tags.closes if not close[-1].isalpha())
        closed = text.rstrip().endswith(closes)
        if closed or self._switches.can_switch_off or tags.opens[0] not in self._template.source:
            return text
        return text + tags.opens[0] + empty

    def _prompt_limit(self, request: GenerateRequest) -> int:
        """Return the most tokens of a prompt that is truncated to leave space for an answer."""
        context = min(self._context, request.max_context or self._context)
        answer = _ANSWER if request.max_tokens is None else request.max_tokens
        return context - max(1, min(answer, context // 4))

    def _reject_too_long(self, text: str) -> None:
        """Reject a text that cannot fit before spending seconds on tokenisation."""
        if len(text) < _LONG_TEXT:
            return
        at_least = len(text.encode("utf-8", "replace")) // self._longest_token
        if at_least >= self._context:
            raise ContextExceeded(at_least, self._context, exact=False)

    @cached_property
    def _longest_token(self) -> int:
        """Return the bytes of the longest token in the vocabulary."""
        tokens = range(self._tokenizer.vocab_size)
        return max(len(self._tokenizer.token_bytes(token)) for token in tokens)
