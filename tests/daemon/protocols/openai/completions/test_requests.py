"""Request fields of other OpenAI-compatible servers, such as vLLM and llama-server."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ingle.backends.base.requests import Priority
from ingle.backends.base.sampling_params import GrammarKind
from ingle.daemon.errors import InvalidBody
from ingle.daemon.protocols.ingle_options import RequestOrigin
from ingle.daemon.protocols.job import Job
from ingle.daemon.protocols.openai.completions.request_types import ChatCompletionRequest
from ingle.daemon.protocols.openai.completions.requests import chat_job

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def job(origin: RequestOrigin | None = None, **fields: Any) -> Job:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    content = msgspec.json.encode(body)
    return chat_job(
        msgspec.json.decode(content, type=ChatCompletionRequest), origin or RequestOrigin()
    )


@pytest.mark.parametrize(
    ("fields", "kind", "param"),
    [
        ({"json_schema": SCHEMA}, GrammarKind.JSON_SCHEMA, "json_schema"),
        ({"guided_json": SCHEMA}, GrammarKind.JSON_SCHEMA, "guided_json"),
        ({"guided_json": json.dumps(SCHEMA)}, GrammarKind.JSON_SCHEMA, "guided_json"),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            GrammarKind.JSON_SCHEMA,
            "response_format",
        ),
        ({"guided_regex": "a+"}, GrammarKind.REGEX, "guided_regex"),
        ({"guided_choice": ["a", "b"]}, GrammarKind.LARK, "guided_choice"),
        ({"guided_grammar": 'root ::= "a"'}, GrammarKind.GBNF, "guided_grammar"),
    ],
)
def test_structured_output_fields(fields: dict[str, Any], kind: GrammarKind, param: str) -> None:
    grammar = job(**fields).request.grammar
    assert grammar is not None
    assert (grammar.kind, grammar.param) == (kind, param)
    if kind is GrammarKind.JSON_SCHEMA:
        assert json.loads(grammar.text) == SCHEMA
    with pytest.raises(InvalidBody, match="both"):
        job(**fields, grammar="start: /x/")


def test_null_structured_output_fields_are_ignored() -> None:
    nothing = dict.fromkeys(("json_schema", "guided_json", "guided_regex", "guided_choice"))
    assert job(**nothing, response_format={"type": "text"}).request.grammar is None


@pytest.mark.parametrize(
    ("fields", "length"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 7, "n_predict": 9}, 7),
        ({"n_predict": 9}, 9),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": -1, "n_predict": 9}, None),
        ({"max_tokens": 2**80}, 2**31 - 1),
    ],
)
def test_max_tokens_fields(fields: dict[str, Any], length: int | None) -> None:
    assert job(**fields).request.max_tokens == length


def test_sampling_field_aliases() -> None:
    (request,) = job(repetition_penalty=1.5, ignore_eos=True).requests({})
    assert (request.sampling.repeat_penalty, request.ignore_eos) == (1.5, True)
    (request,) = job(repetition_penalty=1.5, repeat_penalty=1.2).requests({})
    assert request.sampling.repeat_penalty == 1.2


def test_origin_overrides_the_body() -> None:
    assert job(service_tier="flex").request.priority is Priority.BATCH
    origin = RequestOrigin(client="me", private=True, priority=Priority.BATCH)
    request = job(origin, ingle={"priority": "interactive"}).request
    assert (request.client, request.private, request.priority) == ("me", True, Priority.BATCH)


def test_body_can_mark_a_request_private() -> None:
    """Requests of a batch have no headers and share one origin."""
    assert job(RequestOrigin(client="batches"), ingle={"private": True}).request.private
    assert not job(RequestOrigin(client="batches"), ingle={"private": False}).request.private
