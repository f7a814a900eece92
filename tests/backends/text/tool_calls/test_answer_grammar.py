"""Forced tool calls in every format: generated answers are parsed as valid calls."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from ingle.backends.base.conversation import Tool
from ingle.backends.engine.constraint import Constraint
from ingle.backends.testing.byte_tokenizer import EOS, ByteTokenizer
from ingle.backends.text.answers.answer_parser import AnswerParser
from ingle.backends.text.answers.harmony_parser import HarmonyParser
from ingle.backends.text.answers.tagged_answer_parser import TaggedAnswerParser
from ingle.backends.text.structured_output.answer_grammar import AnswerRules, ControlTags
from ingle.backends.text.structured_output.grammar_compiler import GrammarCompiler
from ingle.backends.text.templates.reasoning_tags import THINK
from ingle.backends.text.tool_calls.call_format import CallFormat
from ingle.backends.text.tool_calls.format_detection import FORMATS, HARMONY
from ingle.backends.text.tool_calls.json_formats import GENERIC

from .conftest import ReadAll

SCHEMAS: dict[str, dict[str, Any]] = {
    "no_arguments": {"type": "object", "properties": {}},
    "edit": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer", "minimum": 1, "maximum": 99},
            "mode": {"enum": ["insert", "replace", "42"]},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
            "quiet": {"type": "boolean"},
            "where": {
                "type": "object",
                "properties": {"x": {"$ref": "#/$defs/number"}},
                "required": ["x"],
                "additionalProperties": False,
            },
            "nothing": {"type": "null"},
        },
        "required": ["path", "mode", "where"],
        "additionalProperties": False,
        "$defs": {"number": {"type": "number", "minimum": 0, "maximum": 9}},
    },
}
TOOLS = [Tool(name, parameters=json.dumps(schema)) for name, schema in SCHEMAS.items()]


def consume(constraint: Constraint, text: str) -> bool:
    """Consume the text if the constraint accepts all of it; returns whether it does."""
    fork = constraint.fork()
    for byte in text.encode():
        if not fork.allows(byte):
            return False
        fork.consume(byte)
    for byte in text.encode():
        constraint.consume(byte)
    return True


def random_answer(constraint: Constraint, ends: list[str], rng: random.Random) -> str:
    """A random answer that the grammar accepts, with a preference for closing open constructs."""
    written = bytearray()
    while not constraint.complete:
        if constraint.allows(EOS) and rng.random() < 0.5:
            break
        end = rng.choice(ends)
        if rng.random() < 0.6 and consume(constraint, end):
            written += end.encode()
            continue
        allowed = [byte for byte in range(32, 127) if constraint.allows(byte)]
        allowed = allowed or [byte for byte in range(256) if constraint.allows(byte)]
        assert allowed, written
        byte = rng.choice(allowed)
        constraint.consume(byte)
        written.append(byte)
    return written.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "call_format", [*FORMATS, GENERIC], ids=lambda call_format: call_format.name
)
@pytest.mark.parametrize("parallel", [True, False], ids=["several", "one"])
def test_generated_calls_are_parsed_and_match_their_schema(
    read_all: ReadAll, call_format: CallFormat, parallel: bool
) -> None:
    tokenizer = ByteTokenizer()
    rules = AnswerRules(ControlTags(tokenizer))
    grammar = rules.finish(rules.calls(call_format, TOOLS, parallel=parallel))
    constraint = GrammarCompiler(tokenizer).compile(grammar)
    rng = random.Random(call_format.name)
    member = call_format.member or ""
    closing = [member.partition("«value»")[2].strip(), *(call_format.quotes or ())]
    closing = [end.replace("«key»", key) for end in closing for key in ("path", "mode")]
    ends = [*call_format.closers, *filter(None, closing), '"', "}", "]", ")", "\n"]
    called: set[str] = set()
    for count in range(60):
        if count >= 6 and called == SCHEMAS.keys():
            break
        answer = random_answer(constraint.fork(), ends, rng)

        def new_parser() -> AnswerParser:
            if call_format is HARMONY:
                return HarmonyParser(TOOLS, parallel=parallel)
            return TaggedAnswerParser(call_format, THINK, TOOLS, parallel=parallel)

        found = read_all(new_parser, answer)
        assert found.text == "", answer
        assert parallel or len(found.calls) == 1
        for name, arguments in found.calls:
            jsonschema.validate(arguments, SCHEMAS[name], jsonschema.Draft202012Validator)
            called.add(name)
    assert called == SCHEMAS.keys()


def forced_arguments(**schema: Any) -> Constraint:
    """The grammar of a forced call of the tool `t` after the beginning of its arguments."""
    tokenizer = ByteTokenizer()
    rules = AnswerRules(ControlTags(tokenizer))
    tool = Tool("t", parameters=json.dumps(schema))
    start = rules.calls(GENERIC, [tool], parallel=False)
    constraint = GrammarCompiler(tokenizer).compile(rules.finish(start))
    beginning = GENERIC.around[0] + GENERIC.call.partition("«arguments»")[0]
    assert consume(constraint, beginning.replace("«name»", "t"))
    return constraint


NUMBER: dict[str, Any] = {"type": "number"}
X: dict[str, Any] = {"type": "object", "properties": {"x": NUMBER}}
Y: dict[str, Any] = {"type": "object", "properties": {"y": NUMBER}}


@pytest.mark.parametrize(
    ("schema", "text", "accepted"),
    [
        ({"type": "object"}, '{"a', False),
        ({"type": "object"}, "{}", True),
        ({"type": "object", "properties": {}}, '{"a', False),
        ({"type": "object", "additionalProperties": True}, '{"a": 1}', True),
        ({"type": "object", "additionalProperties": NUMBER}, '{"a": 1}', True),
        (X, '{"x": 1}', True),
        (X, '{"x": 1, "y', False),
        ({**X, "additionalProperties": True}, '{"x": 1, "y": 2}', True),
        ({"properties": {"in": X}}, '{"in": {"x": 1, "y', False),
        ({"properties": {"in": {"type": "object"}}}, '{"in": {"y": 2}}', True),
        ({"properties": {"in": {"type": "array", "items": X}}}, '{"in": [{"y', False),
        ({"properties": {"in": {"anyOf": [X, Y]}}}, '{"in": {"y": 2}}', True),
        ({"properties": {"in": {"anyOf": [X, Y]}}}, '{"in": {"z', False),
        ({"properties": {"in": {"$ref": "#/$defs/x"}}, "$defs": {"x": X}}, '{"in": {"y', False),
        ({"properties": {"in": {"allOf": [X, Y]}}}, '{"in": {"x": 1, "y": 2}}', True),
        ({**X, "required": ["y"]}, '{"y": 2', True),
        ({**X, "required": [None]}, '{"x": 1}', True),
    ],
)
def test_objects_of_forced_calls_have_no_unnamed_members(
    schema: dict[str, Any], text: str, accepted: bool
) -> None:
    assert consume(forced_arguments(**schema), text) is accepted
