"""`encode_prompt`: BOS handling."""

from __future__ import annotations

from ingle.backends.testing.byte_tokenizer import BOS, ByteTokenizer
from ingle.backends.text.tokenization.tokenizer import Tokenizer, encode_prompt


class RecordingTokenizer(ByteTokenizer):
    """Records the options of each `encode` call."""

    def __init__(self, bos_text: str) -> None:
        self.bos_text = bos_text
        self.calls: list[tuple[bool, bool]] = []

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        self.calls.append((add_special, parse_special))
        return super().encode(text, add_special=add_special, parse_special=parse_special)


def test_bos_token_is_added() -> None:
    assert encode_prompt(ByteTokenizer(), "hi") == [BOS, *b"hi"]


def test_bos_token_of_the_template_is_not_duplicated() -> None:
    assert encode_prompt(ByteTokenizer(), "<|begin|>hi") == [BOS, *b"hi"]


def test_vocabulary_without_bos_uses_its_own_special_tokens() -> None:
    tokenizer: Tokenizer = (recorder := RecordingTokenizer(bos_text=""))
    encode_prompt(tokenizer, "hi")
    assert recorder.calls == [(True, True)]
