"""Places of values in JSON, whatever is escaped before them."""

from __future__ import annotations

import json
import random

import pytest

from ingle.daemon.routing.guard.json_nodes import (
    JsonList,
    JsonNode,
    JsonObject,
    JsonString,
    NotJson,
    quoted,
    read_nodes,
    replaced,
    written_places,
)


def value_of(text: str, node: JsonNode) -> object:
    """Return the value that the nodes stand for."""
    if isinstance(node, JsonObject):
        return {key.text: value_of(text, value) for key, value in node.members}
    if isinstance(node, JsonList):
        return [value_of(text, item) for item in node.items]
    return json.loads(text[node.start : node.end])


@pytest.mark.parametrize(
    "text",
    [
        ' {"a" : [1.50, -2e3, true, null, "\\n\\"}"], "b":{}, "c": [], "a": "\\ud83d\\ude00\\\\"} ',
        '"alone"',
        "17",
        '[[["[",{"]":","}]]]',
    ],
)
def test_nodes_stand_for_the_value(text: str) -> None:
    root = read_nodes(text)
    assert value_of(text, root) == json.loads(text)
    assert text[root.start : root.end] == text.strip()


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[1,]", "{} {}", "[" * 102 + "]" * 102, "'a'"])
def test_other_texts_are_not_json(text: str) -> None:
    with pytest.raises(NotJson):
        read_nodes(text)


def test_places_behind_escapes() -> None:
    rng = random.Random(7)
    units = ["a", "\n", '"', "\\", "é", "😀", "/", "\t", "\u2028", "[", " "]
    for _ in range(300):
        text = "".join(rng.choices(units, k=rng.randint(1, 30)))
        start = rng.randrange(len(text))
        end = rng.randint(start + 1, len(text))
        for literal in (json.dumps(text), json.dumps(text, ensure_ascii=False)):
            first, last = written_places(literal, [start, end])
            assert json.loads(f'"{literal[first:last]}"') == text[start:end]
            changed = replaced(literal, [(first, last, quoted("[X_1]"))])
            assert json.loads(changed) == f"{text[:start]}[X_1]{text[end:]}"


def test_duplicate_keys_are_all_there() -> None:
    root = read_nodes('{"a": "first", "a": "second"}')
    assert isinstance(root, JsonObject)
    assert [value.text for _, value in root.members if isinstance(value, JsonString)] == [
        "first",
        "second",
    ]
    assert root.word("a") == "second"
