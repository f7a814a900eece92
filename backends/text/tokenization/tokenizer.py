"""What the text pipeline needs to know about a model's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

GapMark = Literal["prefix", "suffix", "middle", "repository", "file"]
"""What a control token in a prompt with a gap begins."""

NEXT_FILES = frozenset(
    {
        *("<|fim_pad|>", "<fim_pad>", "<|repo_name|>", "<reponame>", "<repo_name>"),
        *("<|file_sep|>", "<file_sep>", "<|file_separator|>"),
    }
)
"""With these a model ends a file that was to be filled in, and begins the next one."""


class Tokenizer(Protocol):
    """Text to token ids and back, byte for byte."""

    @property
    def vocab_size(self) -> int:
        """Ids run from 0 to one less than this."""
        ...

    @property
    def bos_text(self) -> str:
        """The text of the token that begins a sequence; empty where there is none."""
        ...

    @property
    def eos_text(self) -> str:
        """The text of the token that ends a sequence; empty where there is none."""
        ...

    @property
    def adds_bos(self) -> bool:
        """Whether `encode` with `add_special` puts a BOS token in front."""
        ...

    @property
    def chat_template(self) -> str | None:
        """The Jinja source in the model file, where there is one."""
        ...

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of the text; `parse_special` reads control tokens in it as such."""
        ...

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """The bytes one token stands for; a control token has none unless `special`."""
        ...

    def is_eog(self, token_id: int) -> bool:
        """Whether the token ends a generation."""
        ...

    def has_token(self, text: str) -> bool:
        """Whether a control token is written exactly like this."""
        ...

    def find_token(self, text: str) -> int | None:
        """The control token that is written exactly like this."""
        ...

    @property
    def gap_marks(self) -> Mapping[GapMark, int]:
        """The control tokens around a gap that is to be filled, as far as its file names them."""
        ...


def encode_prompt(tokenizer: Tokenizer, rendered: str) -> list[int]:
    """Token ids of a rendered chat, with a single BOS even where the template writes it too."""
    has_bos = bool(tokenizer.bos_text) and rendered.startswith(tokenizer.bos_text)
    return tokenizer.encode(rendered, add_special=not has_bos, parse_special=True)
