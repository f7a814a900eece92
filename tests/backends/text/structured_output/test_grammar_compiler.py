"""Grammars over a byte vocabulary: what they accept, which are rejected, and their cost."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import numpy as np
import psutil
import pytest

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.testing.byte_tokenizer import EOS, FILE, IM_END, ByteTokenizer
from ingle.backends.text.structured_output.grammar_compiler import (
    MAX_GBNF,
    MAX_TEXT,
    GrammarCompiler,
    TokenConstraint,
)

REGEX, LARK, GBNF = GrammarKind.REGEX, GrammarKind.LARK, GrammarKind.GBNF


def schema(value: Any, *, lenient: bool = False) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(value), lenient, param="response_format")


@pytest.fixture
def compiler() -> GrammarCompiler:
    return GrammarCompiler(ByteTokenizer())


def follow(constraint: TokenConstraint, text: str | bytes) -> bool:
    """Whether the constraint accepts the whole text; masks and `allows` must agree."""
    for byte in text.encode() if isinstance(text, str) else text:
        allowed = constraint.allows(byte)
        assert constraint.mask()[byte] == allowed
        if not allowed:
            return False
        constraint.consume(byte)
    return True


def matches(compiler: GrammarCompiler, grammar: Grammar, text: str) -> bool:
    """Whether the text is a complete match."""
    constraint = compiler.compile(grammar)
    return follow(constraint, text) and (constraint.complete or constraint.allows(EOS))


OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 3, "maximum": 12},
        "ß": {"enum": ["x", None]},
    },
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("grammar", "accepted", "rejected"),
    [
        (
            schema(OBJECT),
            ['{"a":3}', '{"a": 12, "ß": null}'],
            ["{}", '{"a":13}', '{"b":1}', '{"a":3,"c":1}', '{"a":  3}', '{ "a":3}', '{"a" :3}'],
        ),
        (
            schema({**OBJECT, "x-guidance": {"whitespace_flexible": True}}),
            ['{\n  "a": 7,\n  "ß": "x"\n}'],
            ['{"a":13}'],
        ),
        (schema({"type": "object"}), ["{}", '{"x": [1, {"y": "é"}]}'], ["[]", "1", '{"x"}']),
        (schema({"type": "string", "pattern": "b+"}), ['"abbc"', '"b"'], ['"ac"']),
        (schema({"type": "string", "format": "date"}), ['"2024-02-29"'], ['"2024-2-29"']),
        (Grammar(REGEX, "[0-9]{3}-[a-c]+"), ["123-abc"], ["12-a", "123-d"]),
        (Grammar(REGEX, "^ab$"), ["ab"], ["a", "^ab$"]),
        (Grammar(LARK, 'start: "x" ("," /[0-9]+/)*'), ["x", "x,1,22"], ["x,", ",1"]),
        (Grammar(GBNF, 'root ::= move+\nmove ::= [a-h] [1-8] " "?'), ["a1", "a1 h8"], ["i1", "a9"]),
    ],
)
def test_grammar_accepts_and_rejects_texts(
    compiler: GrammarCompiler, grammar: Grammar, accepted: list[str], rejected: list[str]
) -> None:
    assert [text for text in accepted if not matches(compiler, grammar, text)] == []
    assert [text for text in rejected if matches(compiler, grammar, text)] == []


def test_only_end_tokens_are_allowed_after_a_complete_match(compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(schema(OBJECT))
    assert follow(constraint, '{"a":3')
    assert not constraint.allows(EOS)
    assert not constraint.complete
    constraint.consume(ord("}"))
    assert constraint.complete
    assert constraint.error is None
    assert set(np.flatnonzero(constraint.mask())) == {EOS, FILE, IM_END}


def test_extensible_match_may_end(compiler: GrammarCompiler) -> None:
    constraint = compiler.compile(Grammar(REGEX, "[0-9]+"))
    assert follow(constraint, "12")
    assert not constraint.complete
    assert constraint.allows(EOS)
    constraint.consume(IM_END)
    assert constraint.complete


def test_forks_are_independent(compiler: GrammarCompiler) -> None:
    first = compiler.compile(Grammar(REGEX, "ab|cd"))
    second = first.fork()
    assert follow(first, "ab")
    assert follow(second, "cd")
    again = compiler.compile(Grammar(REGEX, "ab|cd"))
    assert follow(again, "ab"), "the cached constraint stays in its initial state"


def test_failed_constraint_does_not_affect_others(compiler: GrammarCompiler) -> None:
    first = compiler.compile(Grammar(REGEX, "ab"))
    first.consume(ord("x"))
    assert first.error is not None
    assert not first.mask().any()
    assert follow(compiler.compile(Grammar(REGEX, "ab")), "ab")


def test_compile_cache_is_bounded(compiler: GrammarCompiler) -> None:
    for number in range(100):
        assert follow(compiler.compile(Grammar(REGEX, f"n{number}")), f"n{number}")
    assert compiler._compiled.cache_info().currsize == 32  # pyright: ignore[reportPrivateUsage]


IMPOSSIBLE: list[tuple[Any, str]] = [
    (False, "must be an object"),
    ({"type": "integer", "minimum": 5, "maximum": 2}, "minimum"),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength"),
    ({"type": "array", "minItems": 3, "maxItems": 2}, "minItems"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "incompatible"),
    ({"enum": []}, "empty"),
    ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "'a'"),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "itself"),
    ({"type": "strin"}, "strin"),
    ({"$ref": "#/nowhere"}, "nowhere"),
    ({"$ref": "https://example.com/x"}, "example.com"),
    ({"type": "string", "pattern": "(?=a)b"}, "look-ahead"),
    ({"type": "string", "pattern": "(a"}, "unclosed"),
    ({"type": "string", "format": "binary"}, "binary"),
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"not": {"type": "string"}}, "not"),
    ({"if": {}, "then": {}}, '"if"'),
    ({"oneOf": [{"type": "string"}, {"type": "string", "minLength": 2}]}, "oneOf"),
    ([1], "must be an object"),
]


@pytest.mark.parametrize(("value", "reason"), IMPOSSIBLE, ids=lambda x: json.dumps(x)[:60])
def test_unsatisfiable_and_unsupported_schemas_report_the_reason(
    compiler: GrammarCompiler, value: Any, reason: str
) -> None:
    with pytest.raises(RequestRejected) as caught:
        compiler.compile(schema(value))
    error = caught.value
    assert (error.code, error.param) == ("invalid_schema", "response_format")
    assert reason in error.message
    assert error.message.startswith("This JSON schema cannot be used: ")
    assert "\n" not in error.message
    assert len(error.message) < 400


def test_lenient_schema_ignores_unsupported_keywords(compiler: GrammarCompiler) -> None:
    value = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    grammar = schema(value, lenient=True)
    assert matches(compiler, grammar, "[1, 1]")
    assert not matches(compiler, grammar, '["a"]')
    with pytest.raises(RequestRejected):
        compiler.compile(schema({"type": "integer", "minimum": 5, "maximum": 2}, lenient=True))


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar(REGEX, "(a"),
        Grammar(REGEX, "(?=a)b"),
        Grammar(REGEX, r"[^\s\S]"),
        Grammar(LARK, ""),
        Grammar(LARK, "stat: /x/"),
        Grammar(LARK, 'start: start "a"'),
        Grammar(LARK, "start: missing"),
        Grammar(GBNF, ""),
        Grammar(GBNF, "root ::= missing"),
        Grammar(GBNF, "root ::= root"),
        Grammar(GBNF, 'root ::= "unclosed'),
        Grammar(GBNF, "root ::= " + "(" * 5000),
        Grammar(GBNF, 'root ::= "a"\nroot ::= "b"\n::='),
    ],
)
def test_invalid_grammars_report_the_reason(compiler: GrammarCompiler, grammar: Grammar) -> None:
    with pytest.raises(RequestRejected) as caught:
        compiler.compile(grammar)
    assert (caught.value.code, caught.value.param) == ("invalid_grammar", "grammar")
    assert caught.value.message.endswith(".")


def _chain(kind: str, length: int) -> dict[str, Any]:
    """A chain of references that doubles at each step."""
    last = {"type": "object", "properties": {"a": {"type": "string"}}}
    steps = [{kind: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(length)]
    return {"$defs": {f"d{i}": step for i, step in enumerate([*steps, last])}, "$ref": "#/$defs/d0"}


HOSTILE: dict[str, Grammar] = {
    "10 MB": schema({"enum": ["x" * 1000 + str(i) for i in range(10_000)]}),
    "wide": schema(
        {"type": "object", "properties": {f"p{i}": {"maxLength": i} for i in range(9000)}}
    ),
    "deep": Grammar(GrammarKind.JSON_SCHEMA, '{"items":' * 20_000 + "{}" + "}" * 20_000),
    "allOf": schema(_chain("allOf", 24)),
    "anyOf": schema(_chain("anyOf", 24)),
    "enum": schema({"enum": [f"value number {i}" for i in range(10_000)]}),
    "items": schema({"type": "array", "minItems": 10**6, "items": {"type": "integer"}}),
    "length": schema({"type": "string", "minLength": 10**9, "maxLength": 10**9}),
    "integers": schema({"type": "integer", "minimum": -(10**18), "multipleOf": 7919}),
    "patterns": schema(
        {
            "type": "object",
            "properties": {f"p{i}": {"pattern": f"^[a-z]{{{i}}}$"} for i in range(400)},
        }
    ),
    "repeats": Grammar(REGEX, "(((a{1,100}){1,100}){1,100}){1,100}"),
    "states": Grammar(REGEX, "(a|b)*a(a|b){40}"),
    "classes": Grammar(REGEX, r"[\p{L}\p{N}]{1,10000}"),
    "dots": Grammar(REGEX, ".*a" * 200),
    "parentheses": Grammar(REGEX, "(" * 9000 + "a" + ")" * 9000),
    "long": Grammar(REGEX, "ab" * (MAX_TEXT // 2 - 1)),
    "alternatives": Grammar(REGEX, "|".join(f"w{i}x*y{i}" for i in range(9000))),
    "ambiguous": Grammar(LARK, 'start: a*\na: b b | b\nb: "x" | "xx" | a'),
    "gbnf": Grammar(GBNF, "root ::= " + '"a" | ' * (MAX_GBNF // 6 - 5) + '"b"'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammar_has_bounded_time_and_memory(compiler: GrammarCompiler, name: str) -> None:
    """The grammar is rejected or usable; either way compilation time and memory are bounded."""
    compiler.compile(Grammar(REGEX, "warm"))
    process = psutil.Process()
    memory, started = process.memory_info().rss, time.thread_time()
    constraint: TokenConstraint | None = None
    refused = False
    try:
        constraint = compiler.compile(HOSTILE[name])
    except RequestRejected:
        refused = True
    assert refused == (constraint is None)
    assert time.thread_time() - started < 10
    rng = random.Random(0)
    for _ in range(60):
        if constraint is None or constraint.complete or constraint.error is not None:
            break
        allowed = np.flatnonzero(constraint.mask())
        if len(allowed):
            constraint.consume(int(rng.choice(allowed.tolist())))
    assert time.thread_time() - started < 20
    assert process.memory_info().rss - memory < 300 * 2**20
