"""Text for custom tools, however the JSON around it is cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingle.daemon.protocols.responses.output_items import CustomToolInput


@settings(max_examples=200, deadline=None)
@given(st.text(), st.integers(1, 7), st.booleans())
def test_any_text_in_pieces_of_any_size(text: str, size: int, ascii_only: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    reader = CustomToolInput()
    told = [reader.push(arguments[at : at + size]) for at in range(0, len(arguments), size)]
    told.append(reader.finish())
    assert "".join(told) == text


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
def test_what_else_models_write(arguments: str, text: str) -> None:
    reader = CustomToolInput()
    assert reader.push(arguments) + reader.finish() == text
