"""Converts Ollama's request bodies into validated jobs; fields that change answers are strict."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, cast

import msgspec

from ingle.backends.base.conversation import ChatMessage, Infill, Reasoning
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import SAMPLING_OPTIONS, Grammar, GrammarKind
from ingle.models.metadata.stored_model import StoredModel

from ...errors import InvalidBody, UnsupportedField
from ..ingle_options import RequestOrigin
from ..job import Job
from ..request_options import (
    ANY_OBJECT,
    SamplingOptions,
    check_token_ids,
    stop_strings,
    template_effort,
    token_limit,
)
from .messages import chat_messages, offered_tools, pictures_of
from .model_descriptions import required_name
from .types import AnswerRequest, ChatRequest, GenerateBody, KeepAlive, Think

_LARGEST = 2**31 - 1
_LARGE = 100.0

# Ollama accepts any number; beyond these bounds the answer no longer changes or makes sense.
_BOUNDS = {
    name: (option.ollama_bounds, option.is_integer)
    for name, option in SAMPLING_OPTIONS.items()
    if option.ollama_bounds is not None
}
_IGNORED_WHOLE = frozenset({"num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread"})
_IGNORED_FLAGS = frozenset(
    {"use_mmap", "use_mlock", "numa", "low_vram", "f16_kv", "vocab_only", "penalize_newline"}
)


@dataclass(frozen=True)
class ModelOptions:
    """The options that change an answer.

    `context` bounds prompt and answer together, and the model is loaded with at least that.
    """

    sampling: SamplingOptions
    stop: list[str]
    context: int | None = None
    max_tokens: int | None = None


def model_options(given: Mapping[str, Any] | None) -> ModelOptions:
    """Check `options`: unknown ones and null are ignored, a wrong type raises `InvalidBody`."""
    options = {name: value for name, value in (given or {}).items() if value is not None}
    values: dict[str, Any] = {}
    for name, ((least, most), is_integer) in _BOUNDS.items():
        value = _whole(options, name) if is_integer else _number(options, name)
        if value is not None:
            values[name] = min(max(value, least), most)
    for name in _IGNORED_WHOLE:
        _whole(options, name)
    for name in _IGNORED_FLAGS & options.keys():
        if not isinstance(options[name], bool):
            raise _wrong(name, "true or false")
    seed = _whole(options, "seed")
    if seed is not None and seed >= 0:
        values["seed"] = seed % 2**63
    return ModelOptions(
        sampling=SamplingOptions(**values),
        stop=_stop(options),
        context=_context(options),
        max_tokens=token_limit(_whole(options, "num_predict")),
    )


def _context(options: Mapping[str, Any]) -> int | None:
    wanted = _whole(options, "num_ctx")
    # 0 and below mean unset, as in Ollama; fewer than four tokens hold no conversation.
    return None if wanted is None or wanted <= 0 else min(max(wanted, 4), _LARGEST)


def _stop(options: Mapping[str, Any]) -> list[str]:
    if "stop" not in options:
        return []
    value = options["stop"]
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(
        isinstance(item, str) for item in cast("list[object]", items)
    ):
        raise _wrong("stop", "a list of strings")
    # Ollama skips empty ones, which would end every answer at once.
    return stop_strings([text for text in cast("list[str]", items) if text])


def _number(options: Mapping[str, Any], name: str) -> float | None:
    value = options.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = _LARGE if value > 0 else -_LARGE
    if not isfinite(number):
        raise _wrong(name, "a finite number")
    return number


def _whole(options: Mapping[str, Any], name: str) -> int | None:
    """The integer given, if any; a fraction is truncated, as in Ollama."""
    value = options.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and isfinite(value):
        return int(value)
    raise _wrong(name, "an integer")


def _wrong(name: str, kind: str) -> InvalidBody:
    return InvalidBody(f"The option '{name}' must be {kind}.", param=f"options.{name}")


FOR_EVER = -1.0
_LONGEST = 1e9
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = r"(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})"
_PART = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(rf"[-+]?(?:{_NUMBER}|(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h))+)")


def keep_alive_seconds(wanted: KeepAlive | None) -> float | None:
    """Seconds after the last use, -1 for ever, None for the default; raises `InvalidBody`.

    >>> keep_alive_seconds("1h30m"), keep_alive_seconds("-1m"), keep_alive_seconds(300)
    (5400.0, -1.0, 300.0)
    """
    if wanted is None:
        return None
    seconds = _parse(wanted.strip()) if isinstance(wanted, str) else float(wanted)
    return FOR_EVER if seconds < 0 else min(seconds, _LONGEST)


def _parse(text: str) -> float:
    if len(text) > 100 or not _DURATION.fullmatch(text):
        raise InvalidBody(
            f"'keep_alive' is {text[:40]!r}, which is no duration.",
            hint='Write seconds as a number, or a text such as "5m", "1h30m" or "-1".',
            param="keep_alive",
        )
    sign = -1.0 if text.startswith("-") else 1.0
    parts = _PART.findall(text)
    if not parts:
        return float(text)
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def chat_job(body: ChatRequest, model: StoredModel, origin: RequestOrigin) -> Job:
    """Check a chat, which follows the model's first messages.

    Raises `InvalidBody` and `UnsupportedField`.
    """
    before = [ChatMessage(message.role, message.content) for message in model.messages]
    messages = chat_messages(body.messages or ())
    last = messages[-1] if messages else None
    return _job(
        body,
        model,
        origin,
        messages=[*before, *messages],
        tools=offered_tools(body.tools),
        # Ollama's templates do not close an answer that the client began.
        continues=last is not None and last.role == "assistant" and not last.tool_calls,
    )


def generate_job(body: GenerateBody, model: StoredModel, origin: RequestOrigin) -> Job:
    """Check a prompt; raises `InvalidBody` and `UnsupportedField`.

    With `context` the prompt is made of tokens once the model is there, see `ContextTokens`.
    """
    prompt = body.prompt or ""
    pictures = pictures_of(body.images)
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
    if pictures and (body.suffix or body.raw):
        raise UnsupportedField(
            "'images' go together with neither 'suffix' nor 'raw'.",
            hint="Let the model's template place them.",
            param="images",
        )
    if body.suffix:
        return _job(body, model, origin, infill=Infill(prompt, body.suffix))
    if body.raw:
        return _job(body, model, origin, prompt=prompt)
    system = [ChatMessage("system", body.system)] if body.system else []
    return _job(
        body, model, origin, messages=[*system, ChatMessage("user", prompt, pictures=pictures)]
    )


def _job(body: AnswerRequest, model: StoredModel, origin: RequestOrigin, **what: Any) -> Job:
    options = model_options({**model.options, **(body.options or {})})
    request = GenerateRequest(
        id=f"ollama-{secrets.token_hex(12)}",
        reasoning=_reasoning(body.think),
        max_tokens=options.max_tokens,
        max_context=options.context,
        stop=options.stop,
        **origin.request_fields(None),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        grammar=_grammar(body.format),
        **what,
    )
    return Job(
        model=required_name(body.model),
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
