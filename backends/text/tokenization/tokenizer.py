"""The interface of a tokenizer as the text pipeline uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

InfillToken = Literal["prefix", "suffix", "middle", "repository", "file"]
"""The part of an infill (FIM) prompt that a control token begins."""

END_OF_FILE_TOKENS = frozenset(
    {
        *("<|fim_pad|>", "<fim_pad>", "<|repo_name|>", "<reponame>", "<repo_name>"),
        *("<|file_sep|>", "<file_sep>", "<|file_separator|>"),
    }
)
"""Tokens with which a model ends an infilled file and begins the next one."""


class Tokenizer(Protocol):
    """Text to token ids and back, byte for byte."""

    vocab_size: int
    """Number of token ids, which start at 0."""
    bos_text: str
    """Text of the BOS token; "" without one."""
    eos_text: str
    """Text of the EOS token; "" without one."""
    adds_bos: bool
    """Whether `encode` with `add_special` prepends a BOS token."""

    @property
    def chat_template(self) -> str | None:
        """Return the Jinja source in the model file, None without one."""
        ...

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the token ids of the text; `parse_special` recognises control tokens in it."""
        ...

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """Return the bytes of a token; empty for control tokens unless `special`."""
        ...

    def is_eog(self, token_id: int) -> bool:
        """Return whether the token ends a generation."""
        ...

    def find_token(self, text: str) -> int | None:
        """Return the control token with exactly this spelling, None without one."""
        ...

    @property
    def infill_tokens(self) -> Mapping[InfillToken, int]:
        """Return the infill control tokens that the file names."""
        ...


def encode_prompt(tokenizer: Tokenizer, rendered: str) -> list[int]:
    """Return the token ids of a rendered chat, with a single BOS even if the template
    writes one.
    """
    has_bos = bool(tokenizer.bos_text) and rendered.startswith(tokenizer.bos_text)
    return tokenizer.encode(rendered, add_special=not has_bos, parse_special=True)
