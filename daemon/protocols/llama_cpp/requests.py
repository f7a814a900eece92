"""Converts llama-server's request bodies into validated jobs."""

from __future__ import annotations

import secrets
from typing import Any, cast

from ingle.backends.base.conversation import Infill, InfillFile, Picture
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar

from ...errors import InvalidBody, UnsupportedField
from ..ingle_options import RequestOrigin, routing_preference_of
from ..job import Job
from ..picture_parts import base64_bytes
from ..request_options import (
    check_token_ids,
    merge_sampling,
    schema_grammar,
    stop_strings,
    text_grammar,
    token_limit,
)
from .sampling import bounded, sampling_options
from .types import CompletionRequest, GenerationFields, InfillRequest, Piece, Prompt, PromptObject

MEDIA_MARKER = "<__media__>"
"""The mark of a picture in a prompt."""
MAX_PROMPTS = 64
MAX_ANSWERS = 16
MAX_PROBABILITIES = 100
MOST_SLOT = 2**31 - 1
_LARGEST = 2**31 - 1

MixedPrompt = str | list[Piece]


def infill_job(body: InfillRequest, model: str, origin: RequestOrigin) -> Job:
    """Check a gap; raises `InvalidBody`."""
    files = [InfillFile(file.filename or "tmp", file.text) for file in body.input_extra or []]
    gap = Infill(body.input_prefix, body.input_suffix, body.prompt or "", files)
    return _job(body, model, origin, infill=gap)


def completion_job(
    body: CompletionRequest, model: str, prompts: list[str | list[int]], origin: RequestOrigin
) -> Job:
    """Check plain prompts, whose mixed ones were turned into tokens; raises `InvalidBody`."""
    return _job(body, model, origin, prompts=tuple(prompts), pictures=_pictures(body.prompt))


def _job(
    body: GenerationFields,
    model: str,
    origin: RequestOrigin,
    *,
    infill: Infill | None = None,
    prompts: tuple[str | list[int], ...] = (),
    pictures: list[Picture] | None = None,
) -> Job:
    options = sampling_options(body)
    merge_sampling(options, {})
    answers = body.n_cmpl if body.n_cmpl is not None else body.n
    request = GenerateRequest(
        id=f"cmpl-{secrets.token_hex(12)}",
        infill=infill,
        pictures=pictures or [],
        max_tokens=token_limit(body.n_predict, body.max_completion_tokens, body.max_tokens),
        max_seconds=time_limit(body) if body.stream else None,
        stop=_stops(body.stop),
        n=1 if answers is None else bounded(answers, 1, MAX_ANSWERS),
        ignore_eos=bool(body.ignore_eos),
        reports_progress=bool(body.stream and body.return_progress),
        logprobs=bounded(body.n_probs or 0, 0, MAX_PROBABILITIES) or None,
        grammar=_grammar(body),
        **origin.request_fields(body.ingle),
    )
    return Job(
        model=model,
        request=request,
        prompts=prompts,
        options=options,
        preference=routing_preference_of(body.ingle),
        slot=-1 if body.id_slot is None else bounded(body.id_slot, -1, MOST_SLOT),
    )


def time_limit(body: GenerationFields) -> float | None:
    """Seconds of decoding after which an answer ends with its current line."""
    limit = body.t_max_predict_ms
    return None if limit is None or limit <= 0 else bounded(limit, 1, _LARGEST) / 1000


def indentation(body: GenerationFields) -> int:
    """Spaces that every line of the answer has to begin with."""
    return 0 if body.n_indent is None else bounded(body.n_indent, 0, _LARGEST)


def _stops(stop: str | list[str] | None) -> list[str]:
    stops = [stop] if isinstance(stop, str) else stop or []
    return stop_strings([text for text in stops if text])


def _grammar(body: GenerationFields) -> Grammar | None:
    if body.grammar:
        return text_grammar(body.grammar)
    if bytes(body.json_schema).strip()[:1] not in (b"", b"{", b"n"):
        raise InvalidBody("'json_schema' must be an object.", param="json_schema")
    return schema_grammar(body.json_schema, "json_schema")


def mixed_prompts(body: CompletionRequest) -> list[MixedPrompt]:
    """The prompts, each a text, tokens, or both in turn; raises `InvalidBody`."""
    given = body.prompt
    if not isinstance(given, list):
        return [_one(given)]
    if any(isinstance(item, int) for item in given):
        if any(isinstance(item, list | PromptObject) for item in given):
            raise InvalidBody(
                "'prompt' mixes tokens with whole prompts.",
                hint="Send one prompt, or a list of prompts.",
                param="prompt",
            )
        return [_one(cast("list[Piece]", given))]
    if not 1 <= len(given) <= MAX_PROMPTS:
        raise InvalidBody(
            f"'prompt' must hold between 1 and {MAX_PROMPTS} prompts.", param="prompt"
        )
    return [_one(cast("Any", item)) for item in given]


def _pictures(prompt: Prompt) -> list[Picture]:
    """The pictures of a prompt, where its marks are; raises `InvalidBody`."""
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], PromptObject):
        prompt = prompt[0]
    if isinstance(prompt, list) and any(
        isinstance(item, PromptObject) and item.multimodal_data for item in prompt
    ):
        raise UnsupportedField(
            "Several prompts with pictures are not supported in one request.",
            hint="Send them one by one.",
            param="prompt",
        )
    if not isinstance(prompt, PromptObject) or not prompt.multimodal_data:
        return []
    text, data, at = prompt.prompt_string, prompt.multimodal_data, 0
    pieces = text.split(MEDIA_MARKER) if isinstance(text, str) else []
    if len(pieces) != len(data) + 1:
        raise InvalidBody(
            f"'prompt' has {len(data)} pictures and {max(0, len(pieces) - 1)} marks for them.",
            hint=f"Write `{MEDIA_MARKER}` into the text of the prompt for each picture.",
            param="prompt.multimodal_data",
        )
    pictures: list[Picture] = []
    for number, (piece, each) in enumerate(zip(pieces, data, strict=False)):
        at += len(piece)
        pictures.append(Picture(at, base64_bytes(each, f"prompt.multimodal_data[{number}]")))
    return pictures


def _one(prompt: str | list[Piece] | PromptObject) -> MixedPrompt:
    if isinstance(prompt, PromptObject):
        text = prompt.prompt_string
        if prompt.multimodal_data and isinstance(text, str):
            text = text.replace(MEDIA_MARKER, "")
        return _one(text)
    check_token_ids((piece for piece in prompt if isinstance(piece, int)), "prompt")
    return prompt
