"""From Ollama's request bodies to checked jobs: pure, and strict where an answer would change."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ingle.backends.base.conversation import ChatMessage, Infill, Reasoning
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind

from ...errors import InvalidBody, UnsupportedField
from ..ingle_options import RequestOrigin
from ..job import Job
from ..request_values import check_token_ids, template_effort
from ..structured_output import ANY_OBJECT
from .keep_alive import keep_alive_seconds
from .messages import chat_messages, offered_tools, refuse_images
from .options import model_options
from .types import AnswerRequest, ChatRequest, GenerateBody, Think


@dataclass(frozen=True, kw_only=True)
class OllamaRequest:
    """A request without its conversation.

    `name` is the model as the client calls it, `defaults` the options that the model was made with.
    """

    name: str
    origin: RequestOrigin = field(default_factory=RequestOrigin)
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])


def chat_job(body: ChatRequest, asked: OllamaRequest, before: list[ChatMessage]) -> Job:
    """Check a chat, which goes on `before`; raises `InvalidBody` and `UnsupportedField`."""
    messages = chat_messages(body.messages or ())
    last = messages[-1] if messages else None
    return _job(
        body,
        asked,
        messages=[*before, *messages],
        tools=offered_tools(body.tools),
        # Templates of Ollama leave an answer open that the client began.
        continues=last is not None and last.role == "assistant" and not last.tool_calls,
    )


def generate_job(body: GenerateBody, asked: OllamaRequest) -> Job:
    """Check a prompt; raises `InvalidBody` and `UnsupportedField`.

    With `context` the prompt is made of tokens once the model is there, see `ContextTokens`.
    """
    prompt = body.prompt or ""
    refuse_images(body.images)
    check_token_ids(body.context or (), "context")
    if body.raw and (body.template or body.system or body.context):
        raise InvalidBody(
            "'raw' goes together with neither 'template' nor 'system' nor 'context'.",
            hint="Put everything into the prompt.",
            param="raw",
        )
    if body.template:
        raise UnsupportedField(
            "'template' is not supported: templates here are Jinja, and a model's own.",
            hint="Leave it out, or render the prompt yourself and send it with 'raw': true.",
            param="template",
        )
    if body.suffix:
        return _job(body, asked, infill=Infill(prompt, body.suffix))
    if body.raw:
        return _job(body, asked, prompt=prompt)
    system = [ChatMessage("system", body.system)] if body.system else []
    return _job(body, asked, messages=[*system, ChatMessage("user", prompt)])


def _job(body: AnswerRequest, asked: OllamaRequest, **what: Any) -> Job:
    options = model_options({**asked.defaults, **(body.options or {})})
    request = GenerateRequest(
        id=f"ollama-{secrets.token_hex(12)}",
        reasoning=_reasoning(body.think),
        max_tokens=options.max_tokens,
        max_context=options.context,
        stop=options.stop,
        **asked.origin.request_fields(None),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        grammar=_grammar(body.format),
        **what,
    )
    return Job(
        model=asked.name,
        request=request,
        options=options.sampling,
        context=options.context,
        keep_alive=keep_alive_seconds(body.keep_alive),
    )


def _reasoning(think: Think | None) -> Reasoning:
    if think is None or isinstance(think, bool):
        return Reasoning(enabled=think)
    return Reasoning(enabled=True, effort=template_effort(think))


def _grammar(wanted: dict[str, Any] | str | None) -> Grammar | None:
    if wanted in (None, ""):
        return None
    if wanted == "json":
        return Grammar(GrammarKind.JSON_SCHEMA, ANY_OBJECT, param="format")
    if isinstance(wanted, str):
        raise InvalidBody(
            f"'format' is {wanted[:40]!r}.",
            hint='It must be "json" or a JSON Schema.',
            param="format",
        )
    text = msgspec.json.encode(wanted).decode()
    # Ollama follows a schema as far as it can, too.
    return Grammar(GrammarKind.JSON_SCHEMA, text, lenient=True, param="format")
