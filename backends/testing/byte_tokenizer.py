"""A tokenizer whose tokens are bytes, for engines that follow a script."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..text.tokenization.tokenizer import InfillToken

BOS, EOS, IM_START, IM_END = 256, 257, 258, 259
PREFIX, SUFFIX, MIDDLE, FILE = 260, 261, 262, 263
CONTROL_TOKENS = {
    "<|begin|>": BOS,
    "<|end|>": EOS,
    "<|im_start|>": IM_START,
    "<|im_end|>": IM_END,
    "<|fim_prefix|>": PREFIX,
    "<|fim_suffix|>": SUFFIX,
    "<|fim_middle|>": MIDDLE,
    "<|file_sep|>": FILE,
}


class ByteTokenizer:
    """Ids 0 to 255 are bytes of UTF-8, then come control tokens of chats and of gaps in files."""

    vocab_size = 264
    bos_text = "<|begin|>"
    eos_text = "<|end|>"
    adds_bos = True
    chat_template: str | None = (
        "{% for message in messages %}"
        "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return one id per byte or, if `parse_special`, control token; BOS if `add_special`."""
        token_ids = [BOS] if add_special else []
        pieces = _control_pattern.split(text) if parse_special else [text]
        for piece in pieces:
            control = CONTROL_TOKENS.get(piece) if parse_special else None
            token_ids += piece.encode("utf-8", "replace") if control is None else [control]
        return token_ids

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """Return the byte; for a control token nothing or, with `special`, its text."""
        if 0 <= token_id < BOS:
            return bytes((token_id,))
        text = _control_texts[token_id]
        return text.encode() if special else b""

    def is_eog(self, token_id: int) -> bool:
        """Return whether the token ends a text, a turn or a file."""
        return token_id in (EOS, IM_END, FILE)

    def find_token(self, text: str) -> int | None:
        """Return the control token with this text."""
        return CONTROL_TOKENS.get(text)

    @property
    def infill_tokens(self) -> Mapping[InfillToken, int]:
        """Return no tokens besides those with well-known names."""
        return {}


_control_texts = {token_id: text for text, token_id in CONTROL_TOKENS.items()}
_control_pattern = re.compile("(" + "|".join(map(re.escape, CONTROL_TOKENS)) + ")")
