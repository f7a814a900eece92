from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingle.backends.testing.byte_tokenizer import BOS, EOS, FILE, IM_END, IM_START, ByteTokenizer
from ingle.backends.text.tokenization.tokenizer import Tokenizer

tokenizer: Tokenizer = ByteTokenizer()


@given(st.text(), st.booleans())
def test_text_round_trip(text: str, parse_special: bool) -> None:
    token_ids = tokenizer.encode(text, add_special=False, parse_special=parse_special)
    pieces = [tokenizer.token_bytes(token_id, special=True) for token_id in token_ids]
    assert b"".join(pieces).decode() == text


def test_control_tokens_are_parsed_only_with_parse_special() -> None:
    text = "<|im_start|>é<|im_end|>"
    assert tokenizer.encode(text, add_special=True, parse_special=True) == [
        *(BOS, IM_START),
        *"é".encode(),
        IM_END,
    ]
    assert tokenizer.encode(text, add_special=False, parse_special=False) == list(text.encode())


def test_control_tokens_have_no_bytes_by_default() -> None:
    assert [tokenizer.token_bytes(i) for i in (BOS, EOS, IM_START, IM_END)] == [b""] * 4
    assert tokenizer.token_bytes(IM_END, special=True) == b"<|im_end|>"
    with pytest.raises(KeyError):
        tokenizer.token_bytes(tokenizer.vocab_size)


def test_end_of_text_and_end_of_turn_end_generation() -> None:
    ends = [i for i in range(tokenizer.vocab_size) if tokenizer.is_eog(i)]
    assert ends == [EOS, IM_END, FILE]
    assert tokenizer.find_token("<|im_start|>") is not None
    assert tokenizer.find_token("a") is None
