"""`TextOutput`: text, token IDs and logprobs of a streamed answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.base.events import TokenLogprobs
from ingle.backends.testing.byte_tokenizer import IM_END, ByteTokenizer
from ingle.backends.text.streaming.text_output import TextChunk, TextOutput

token_bytes = ByteTokenizer().token_bytes


def test_token_ids_are_emitted_with_their_text() -> None:
    output = TextOutput(token_bytes)
    euro = list("€".encode())
    assert output.push(euro[:1]) == TextChunk("", [])
    assert output.push(euro[1:2]) == TextChunk("", [])
    assert output.push(euro[2:]) == TextChunk("€", euro)
    assert output.finish() == TextChunk("", [])


def test_token_ids_are_held_back_with_a_possible_stop_string() -> None:
    output = TextOutput(token_bytes, ["END"])
    assert output.push(b"E") == TextChunk("", [])
    assert output.push(b"N") == TextChunk("", [])
    assert output.push(b"!") == TextChunk("EN!", list(b"EN!"))
    assert output.push(b"xE") == TextChunk("x", list(b"xE"))
    assert output.finish() == TextChunk("E", [])
    assert output.stop is None


def test_stop_string_truncates_the_tokens_of_a_push() -> None:
    output = TextOutput(token_bytes, ["END"])
    assert output.push(b"aE") == TextChunk("a", list(b"aE"))
    assert output.stop is None
    assert output.push(b"NDbc") == TextChunk("", list(b"ND"))
    assert output.stop == "END"
    assert output.push(b"more") == TextChunk("", [])
    assert output.finish() == TextChunk("", [])
    assert output.stop == "END"


def test_finish_flushes_held_back_text() -> None:
    output = TextOutput(token_bytes, ["END"])
    assert output.push(b"E") == TextChunk("", [])
    assert output.push([0xE2, 0x82]) == TextChunk("", [])
    assert output.finish() == TextChunk("E\ufffd", [ord("E"), 0xE2, 0x82])


def test_control_tokens_have_no_text() -> None:
    output = TextOutput(token_bytes)
    assert output.push(b"a") == TextChunk("a", [97])
    assert output.push([IM_END]) == TextChunk("", [])
    assert output.finish() == TextChunk("", [IM_END])


def test_replacement_character_on_finish_can_match_a_stop_string() -> None:
    output = TextOutput(token_bytes, ["\ufffd"])
    assert output.push([97, 0xE2]) == TextChunk("a", [97, 0xE2])
    assert output.stop is None
    assert output.finish() == TextChunk("", [])
    assert output.stop == "\ufffd"


@given(st.lists(st.lists(st.integers(0, 259), max_size=5)), st.lists(st.text("ab", min_size=1)))
def test_every_token_id_is_emitted_once_in_order(pushes: list[list[int]], stops: list[str]) -> None:
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
    decoded = b"".join(map(token_bytes, returned)).decode("utf-8", "replace")
    text = "".join(chunk.text for chunk in chunks)
    assert decoded.startswith(text) if output.stop is not None else decoded == text


def test_logprobs_are_emitted_with_their_tokens() -> None:
    """Logprobs are held back and emitted with their tokens, and dropped after a stop string."""

    def logprobs_of(*tokens: int) -> list[TokenLogprobs]:
        return [TokenLogprobs(token, -float(token)) for token in tokens]

    output = TextOutput(lambda token: bytes((token,)), ["STOP"])
    accent = "é".encode()
    assert output.push([accent[0]], logprobs_of(accent[0])).logprobs is None
    chunk = output.push([accent[1], *b"aS"], logprobs_of(accent[1], *b"aS"))
    assert (chunk.text, chunk.token_ids) == ("éa", [*accent, *b"aS"])
    assert chunk.logprobs == logprobs_of(*accent, *b"aS")
    assert output.push(b"TO", logprobs_of(*b"TO")).logprobs is None
    chunk = output.push(b"Pxyz", logprobs_of(*b"Pxyz"))
    assert output.stop == "STOP"
    assert chunk.token_ids == list(b"TOP")
    assert chunk.logprobs == logprobs_of(*b"TOP")
    assert output.finish().logprobs is None


def test_logprobs_are_none_if_not_requested() -> None:
    output = TextOutput(lambda token: bytes((token,)))
    assert output.push(b"ab").logprobs is None
    assert output.finish().logprobs is None
