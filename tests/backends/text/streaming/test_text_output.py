from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.events import TokenLogprobs
from ingle.backends.testing.byte_tokenizer import IM_END, ByteTokenizer
from ingle.backends.text.streaming.text_output import TextChunk, TextOutput

token_bytes = ByteTokenizer().token_bytes


def test_ids_wait_for_their_text() -> None:
    output = TextOutput(token_bytes)
    euro = list("€".encode())
    assert output.push(euro[:1]) == TextChunk("", [])
    assert output.push(euro[1:2]) == TextChunk("", [])
    assert output.push(euro[2:]) == TextChunk("€", euro)
    assert output.finish() == TextChunk("", [])


def test_ids_wait_for_text_that_may_be_a_stop_string() -> None:
    output = TextOutput(token_bytes, ["END"])
    assert output.push(b"E") == TextChunk("", [])
    assert output.push(b"N") == TextChunk("", [])
    assert output.push(b"!") == TextChunk("EN!", list(b"EN!"))
    assert output.push(b"xE") == TextChunk("x", list(b"xE"))
    assert output.finish() == TextChunk("E", [])
    assert output.stop is None


def test_a_stop_string_ends_the_sequence_within_a_push() -> None:
    output = TextOutput(token_bytes, ["END"])
    assert output.push(b"aE") == TextChunk("a", list(b"aE"))
    assert output.stop is None
    assert output.push(b"NDbc") == TextChunk("", list(b"ND"))
    assert output.stop == "END"
    assert output.push(b"more") == TextChunk("", [])
    assert output.finish() == TextChunk("", [])
    assert output.stop == "END"


def test_the_rest_comes_at_the_end() -> None:
    output = TextOutput(token_bytes, ["END"])
    assert output.push(b"E") == TextChunk("", [])
    assert output.push([0xE2, 0x82]) == TextChunk("", [])
    assert output.finish() == TextChunk("E\ufffd", [ord("E"), 0xE2, 0x82])


def test_a_control_token_has_an_id_and_no_text() -> None:
    output = TextOutput(token_bytes)
    assert output.push(b"a") == TextChunk("a", [97])
    assert output.push([IM_END]) == TextChunk("", [])
    assert output.finish() == TextChunk("", [IM_END])


def test_a_replacement_character_at_the_end_may_be_a_stop_string() -> None:
    output = TextOutput(token_bytes, ["\ufffd"])
    assert output.push([97, 0xE2]) == TextChunk("a", [97, 0xE2])
    assert output.stop is None
    assert output.finish() == TextChunk("", [])
    assert output.stop == "\ufffd"


@given(st.lists(st.lists(st.integers(0, 259), max_size=5)), st.lists(st.text("ab", min_size=1)))
def test_every_id_comes_out_once_and_in_order(pushes: list[list[int]], stops: list[str]) -> None:
    output = TextOutput(token_bytes, stops)
    chunks: list[TextChunk] = []
    for ids in pushes:
        chunk = output.push(ids)
        assert chunk.text or not chunk.token_ids or output.stop is not None
        chunks.append(chunk)
    chunks.append(output.finish())
    given_ids = [token_id for ids in pushes for token_id in ids]
    returned = [token_id for chunk in chunks for token_id in chunk.token_ids]
    assert returned == given_ids[: len(returned)]
    assert output.stop is not None or len(returned) == len(given_ids)
    whole = b"".join(map(token_bytes, returned)).decode("utf-8", "replace")
    text = "".join(chunk.text for chunk in chunks)
    assert whole.startswith(text) if output.stop is not None else whole == text


def test_logprobs_stay_with_their_tokens() -> None:
    """Held back and given out with them, and dropped with those behind a stop string."""

    def scored(*tokens: int) -> list[TokenLogprobs]:
        return [TokenLogprobs(token, -float(token)) for token in tokens]

    output = TextOutput(lambda token: bytes((token,)), ["STOP"])
    smile = "é".encode()
    assert output.push([smile[0]], scored(smile[0])).logprobs is None
    chunk = output.push([smile[1], *b"aS"], scored(smile[1], *b"aS"))
    assert (chunk.text, chunk.token_ids) == ("éa", [*smile, *b"aS"])
    assert chunk.logprobs == scored(*smile, *b"aS")
    assert output.push(b"TO", scored(*b"TO")).logprobs is None
    chunk = output.push(b"Pxyz", scored(*b"Pxyz"))
    assert output.stop == "STOP"
    assert chunk.token_ids == list(b"TOP")
    assert chunk.logprobs == scored(*b"TOP")
    assert output.finish().logprobs is None


def test_without_logprobs_there_are_none() -> None:
    output = TextOutput(lambda token: bytes((token,)))
    assert output.push(b"ab").logprobs is None
    assert output.finish().logprobs is None
