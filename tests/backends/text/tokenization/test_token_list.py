"""`token_list`: tokenizing and detokenizing requests."""

from __future__ import annotations

import pytest

from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.requests import TokenizeRequest
from ingle.backends.testing.byte_tokenizer import BOS, IM_END, ByteTokenizer
from ingle.backends.text.tokenization.token_list import LONGEST_TEXT, token_list

TOKENIZER = ByteTokenizer()


def test_control_tokens_are_parsed_if_requested() -> None:
    parsed = token_list(TOKENIZER, TokenizeRequest(id="t", text="é<|im_end|>", add_special=True))
    assert parsed.token_ids == [BOS, *"é".encode(), IM_END]
    assert parsed.pieces == [b"<|begin|>", b"\xc3", b"\xa9", b"<|im_end|>"]
    unparsed = token_list(
        TOKENIZER, TokenizeRequest(id="t", text="<|im_end|>", parse_special=False)
    )
    assert unparsed.token_ids == list(b"<|im_end|>")


def test_token_pieces_are_bytes() -> None:
    tokens = token_list(TOKENIZER, TokenizeRequest(id="t", token_ids=[0xC3, IM_END]))
    assert tokens.pieces == [b"\xc3", b"<|im_end|>"]
    assert token_list(TOKENIZER, TokenizeRequest(id="t", token_ids=[])).pieces == []
    assert token_list(TOKENIZER, TokenizeRequest(id="t", text="")).token_ids == []


@pytest.mark.parametrize("token_id", [-1, 264, 2**31, 2**63])
def test_unknown_token_ids_are_rejected(token_id: int) -> None:
    with pytest.raises(RequestRejected, match=f"Token {token_id} is not") as caught:
        token_list(TOKENIZER, TokenizeRequest(id="t", token_ids=[1, token_id]))
    assert caught.value.param == "tokens"


def test_too_long_texts_are_rejected() -> None:
    assert token_list(TOKENIZER, TokenizeRequest(id="t", text="x" * LONGEST_TEXT)).token_ids
    with pytest.raises(RequestRejected, match="too long") as caught:
        token_list(TOKENIZER, TokenizeRequest(id="t", text="x" * (LONGEST_TEXT + 1)))
    assert caught.value.hint
