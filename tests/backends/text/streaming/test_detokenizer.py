"""Incremental UTF-8 decoding of tokens."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.text.streaming.text_output import TextOutput

# Bytes at the boundaries of UTF-8, which random bytes seldom reach.
PARTS = [
    *(b"a", b" ", b"\x80", b"\xbf", b"\xc0", b"\xc3", b"\xa9", b"\xe0", b"\xe2\x82", b"\xed\xa0"),
    *(b"\xef\xbf\xbd", b"\xf0\x9f", b"\x98\x80", b"\xf4\x90", b"\xf5", b"\xff", "é€😀".encode()),
]
edge_cases = st.lists(st.sampled_from(PARTS)).map(b"".join)
texts = st.text().map(lambda text: text.encode("utf-8", "ignore"))


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    boundaries = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(boundaries)]


@given(st.one_of(st.binary(), edge_cases, texts), st.lists(st.integers(0, 1000)))
def test_any_split_decodes_like_the_complete_bytes(data: bytes, cuts: list[int]) -> None:
    pieces = split(data, cuts)
    output = TextOutput(pieces.__getitem__)
    text = "".join(output.push([index]).text for index in range(len(pieces)))
    assert text + output.finish().text == data.decode("utf-8", "replace")


@given(texts, st.lists(st.integers(0, 1000)))
def test_valid_text_never_shows_a_replacement_character(data: bytes, cuts: list[int]) -> None:
    data = data.replace("\ufffd".encode(), b"")
    pieces = split(data, cuts)
    output = TextOutput(pieces.__getitem__)
    shown = ""
    for index in range(len(pieces)):
        shown += output.push([index]).text
        assert "\ufffd" not in shown
        assert data.decode().startswith(shown)


@pytest.mark.parametrize("text", ["é", "€", "😀", "👩‍👩‍👧"])
def test_character_is_emitted_with_its_last_byte(text: str) -> None:
    data = text.encode()
    output = TextOutput(lambda token_id: bytes((token_id,)))
    shown = [output.push([byte]).text for byte in data]
    assert "".join(shown) == text
    assert sum(map(bool, shown)) == len(text)


def test_invalid_bytes_are_replaced_as_early_as_possible() -> None:
    output = TextOutput(lambda token_id: bytes((token_id,)))
    assert output.push([0xE2]).text == ""
    assert output.push([0x82]).text == ""
    assert output.push([ord("x")]).text == "\ufffdx"
    assert output.push([0xFF]).text == "\ufffd"
    assert output.push([0xF0, 0x9F]).text == ""
    assert output.finish().text == "\ufffd"
    assert output.finish().text == ""
    assert output.push([ord("y")]).text == "y"


def test_leading_spaces_are_kept() -> None:
    pieces = [b" Hello", b" ", b" world", b"", b"\n"]
    output = TextOutput(pieces.__getitem__)
    assert output.push(range(5)).text == " Hello  world\n"
