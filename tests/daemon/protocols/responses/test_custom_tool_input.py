"""Custom tool input, extracted from JSON that arrives in pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.daemon.protocols.responses.output_items import CustomToolInput


@settings(max_examples=200, deadline=None)
@given(st.text(), st.integers(1, 7), st.booleans())
def test_text_is_extracted_from_pieces_of_any_size(text: str, size: int, ascii_only: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    reader = CustomToolInput()
    pieces = [reader.push(arguments[at : at + size]) for at in range(0, len(arguments), size)]
    pieces.append(reader.finish())
    assert "".join(pieces) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"patch": "x"}', "x"),
        ('{"a": 1, "input": "x"}', "x"),
        ('{"a": "1", "b": "2"}', '{"a": "1", "b": "2"}'),
        ('"x"', "x"),
        ("*** Begin", "*** Begin"),
        ("", ""),
        ("{}", "{}"),
        ('{"input": "broken \\x off', "broken \\x off"),
        ('{"input": "\\ud83d"}', "\ufffd"),
    ],
)
def test_unexpected_arguments(arguments: str, text: str) -> None:
    reader = CustomToolInput()
    assert reader.push(arguments) + reader.finish() == text
