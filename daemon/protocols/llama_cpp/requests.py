"""From llama-server's request bodies to checked jobs."""

from __future__ import annotations

import secrets
from typing import Any, cast

from ingle.backends.base.conversation import Infill, InfillFile
from ingle.backends.base.requests import GenerateRequest, Priority
from ingle.backends.base.sampling_params import Grammar, GrammarKind

from ...errors import InvalidBody, UnsupportedField
from ..ingle_options import RequestOrigin, routing_preference_of
from ..job import Job
from ..sampling_options import MAX_STOPS, merge_sampling
from ..structured_output import text_grammar
from .sampling import bounded, sampling_options
from .types import CompletionRequest, GenerationFields, InfillRequest, Piece, PromptObject

MAX_PROMPTS = 64
MAX_ANSWERS = 16
MAX_PROBABILITIES = 100
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
    return _job(body, model, origin, prompts=tuple(prompts))


def _job(
    body: GenerationFields,
    model: str,
    origin: RequestOrigin,
    *,
    infill: Infill | None = None,
    prompts: tuple[str | list[int], ...] = (),
) -> Job:
    options = sampling_options(body)
    merge_sampling(options, {})
    answers = body.n_cmpl if body.n_cmpl is not None else body.n
    own = body.ingle
    request = GenerateRequest(
        id=f"cmpl-{secrets.token_hex(12)}",
        infill=infill,
        max_tokens=_most_tokens(body),
        max_seconds=time_limit(body) if body.stream else None,
        stop=_stops(body.stop),
        n=1 if answers is None else bounded(answers, 1, MAX_ANSWERS),
        ignore_eos=bool(body.ignore_eos),
        logprobs=_probabilities(body),
        grammar=_grammar(body),
        private=origin.private,
        client=origin.client,
        conversation=origin.conversation,
        priority=origin.priority or (own and own.priority) or Priority.INTERACTIVE,
        speculation=own is None or own.speculation is not False,
    )
    return Job(
        model=model,
        request=request,
        prompts=prompts,
        options=options,
        preference=routing_preference_of(own),
    )


def time_limit(body: GenerationFields) -> float | None:
    """Seconds of writing after which an answer ends with the line it is in."""
    limit = body.t_max_predict_ms
    return None if limit is None or limit <= 0 else bounded(limit, 1, _LARGEST) / 1000


def indentation(body: GenerationFields) -> int:
    """Spaces that every line of the answer has to begin with."""
    return 0 if body.n_indent is None else bounded(body.n_indent, 0, _LARGEST)


def _most_tokens(body: GenerationFields) -> int | None:
    """None for as many as the context holds."""
    most = body.most_tokens
    return None if most is None or most < 0 else bounded(most, 0, _LARGEST)


def _stops(stop: str | list[str] | None) -> list[str]:
    stops = [stop] if isinstance(stop, str) else stop or []
    stops = [text for text in stops if text]
    if len(stops) > MAX_STOPS:
        raise InvalidBody(f"'stop' may hold at most {MAX_STOPS} strings.", param="stop")
    return stops


def _probabilities(body: GenerationFields) -> int | None:
    wanted = 0 if body.n_probs is None else bounded(body.n_probs, 0, MAX_PROBABILITIES)
    return wanted or None


def _grammar(body: GenerationFields) -> Grammar | None:
    if body.grammar:
        return text_grammar(body.grammar)
    schema = bytes(body.json_schema).decode().strip()
    if schema in ("", "null"):
        return None
    if not schema.startswith("{"):
        raise InvalidBody("'json_schema' must be an object.", param="json_schema")
    return Grammar(GrammarKind.JSON_SCHEMA, schema, param="json_schema")


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


def _one(prompt: str | list[Piece] | PromptObject) -> MixedPrompt:
    if isinstance(prompt, PromptObject):
        if prompt.multimodal_data:
            raise UnsupportedField(
                "'multimodal_data' is not supported: models read text only.",
                hint="Send text.",
                param="prompt.multimodal_data",
            )
        return _one(prompt.prompt_string)
    if isinstance(prompt, list) and not all(
        isinstance(piece, str) or 0 <= piece <= _LARGEST for piece in prompt
    ):
        raise InvalidBody("'prompt' holds something that is no token.", param="prompt")
    return prompt
