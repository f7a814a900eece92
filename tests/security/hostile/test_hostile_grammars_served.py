"""Grammars that would crash or hang native code, through a real daemon and a real model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def nested_schema(key: str, times: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(times):
        schema = {key: schema} if key == "items" else {key: [schema, schema]}
    return schema


# Known from other projects: undefined and left-recursive rules crashed llama.cpp with SIGSEGV.
HOSTILE: dict[str, dict[str, object]] = {
    "left recursion": {"grammar": 'root ::= root "a"'},
    "recursion through another": {"grammar": 'root ::= a\na ::= b\nb ::= a "x"'},
    "undefined rule": {"grammar": "root ::= nowhere"},
    "no root": {"grammar": 'other ::= "a"'},
    "root alone": {"grammar": "root ::= root"},
    "empty rule": {"grammar": "root ::="},
    "a million": {"grammar": 'root ::= "a"{1,1000000}'},
    "millions of millions": {"grammar": 'root ::= (("a"{1,9999}){1,9999}){1,9999}'},
    "reversed bounds": {"grammar": 'root ::= "a"{9,1}'},
    "negative bounds": {"grammar": 'root ::= "a"{-1,-5}'},
    "parentheses": {"grammar": "root ::= " + "(" * 5000 + '"a"' + ")" * 5000},
    "open quote": {"grammar": 'root ::= "a'},
    "open class": {"grammar": "root ::= [a-"},
    "reversed class": {"grammar": "root ::= [z-a]"},
    "nul": {"grammar": 'root ::= "\0"'},
    "beyond Unicode": {"grammar": r'root ::= "\UFFFFFFFF"'},
    "no grammar": {"grammar": "::=" * 1000},
    "long": {"grammar": "root ::= " + '"a" | ' * 50_000 + '"b"'},
    "lark recursion": {"grammar": 'start: start "a"'},
    "lark undefined": {"grammar": "start: nowhere"},
    "lark lookahead": {"grammar": "start: /(?=a)b/"},
    "catastrophic regex": {"regex": "(a+)+$"},
    "exponential regex": {"regex": "(a|b)*a(a|b){60}"},
    "huge repetition": {"regex": "a{1,1000000}"},
    "nested repetition": {"regex": "(((a{1,1000}){1,1000}){1,1000}){1,1000}"},
    "backreference": {"regex": r"(a)\1"},
    "look behind": {"regex": "(?<=a)b"},
    "open regex": {"regex": "("},
    "regex parentheses": {"regex": "(" * 20_000 + "a" + ")" * 20_000},
    "schema reference to itself": {"json": {"$ref": "#"}},
    "schema reference in a circle": {
        "json": {
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            "$ref": "#/$defs/a",
        }
    },
    "schema reference outside": {"json": {"$ref": "file:///etc/passwd"}},
    "schema reference to the network": {"json": {"$ref": "http://127.0.0.1:1/x"}},
    "schema nothing matches": {"json": {"type": "integer", "minimum": 5, "maximum": 1}},
    "schema false": {"json": {"type": "object", "properties": {"a": False}, "required": ["a"]}},
    "schema deep": {"json": nested_schema("items", 200)},
    "schema doubling": {"json": nested_schema("anyOf", 12)},
    "schema pattern": {"json": {"type": "string", "pattern": "(a+)+(b|c){1,100000}$"}},
    "schema lengths": {"json": {"type": "string", "minLength": 10**9}},
    "schema items": {"json": {"type": "array", "minItems": 10**9, "items": {}}},
    "schema unknown type": {"json": {"type": "everything"}},
    "choices": {"choice": [f"choice number {number}" for number in range(20_000)]},
}


@pytest.fixture
def model(tmp_path: Path, write_small_llama: Callable[..., Path]) -> Path:
    return write_small_llama(tmp_path / "model.gguf")


def test_hostile_grammars_fail_only_their_own_request(target_daemon: Any, model: Path) -> None:
    assert target_daemon.ask(model).status == 200
    (loaded,) = _loaded(target_daemon, model)
    for name, grammar in HOSTILE.items():
        answer = target_daemon.ask(model, structured_outputs=grammar)
        assert answer.status in (200, 400, 413), (name, answer)
        if answer.status != 200:
            answer.assert_typed()
        assert answer.seconds < 30, (name, answer)  # five, on an idle machine
        assert _loaded(target_daemon, model) == [loaded], f"{name} ended the model's process"
    assert target_daemon.ask(model).status == 200
    target_daemon.assert_lives()


@pytest.mark.slow
def test_several_structured_output_fields_are_refused(target_daemon: Any, model: Path) -> None:
    answer = target_daemon.ask(model, structured_outputs={"regex": "a", "grammar": 'root ::= "a"'})
    assert answer.status == 400
    answer.assert_typed()


def _loaded(target_daemon: Any, model: Path) -> list[int]:
    models = target_daemon.http.get("/ingle/v1/status").json()["models"]
    return [entry["pid"] for entry in models if entry["name"] == str(model)]
