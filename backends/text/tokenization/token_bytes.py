"""Decodes the bytes of tokens from their spelling in the vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ingle.models.errors import UnsupportedModel

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Steps that affect only the beginning or end of a text, or join decoded pieces.
_NO_SPELLING = ("Fuse", "Strip")


class TokenSpelling:
    """Bytes of a token's text, by the steps of its vocabulary's decoder."""

    def __init__(self, decoder: Mapping[str, Any], path: Path) -> None:
        """`decoder` is that of `tokenizer.json`; raises `UnsupportedModel` for an unknown step."""
        self._byte_level = False
        self._byte_fallback = False
        self._replacements: list[tuple[str, str]] = []
        for step in _steps(decoder):
            kind = step.get("type")
            pattern = cast("object", step.get("pattern"))
            if kind == "ByteLevel":
                self._byte_level = True
            elif kind == "ByteFallback":
                self._byte_fallback = True
            elif kind == "Metaspace":
                self._replacements.append((str(step.get("replacement", "▁")), " "))
            elif kind == "Replace" and isinstance(pattern, dict) and "String" in pattern:
                old = str(cast("dict[str, object]", pattern)["String"])
                self._replacements.append((old, str(step.get("content", ""))))
            elif kind not in _NO_SPELLING:
                raise UnsupportedModel(
                    f"{path} uses a token decoder that is not supported: {kind or 'no decoder'}.",
                    hint="Choose an edition in GGUF.",
                )

    def bytes_of(self, text: str) -> bytes:
        """Return the bytes of a token of the learned vocabulary."""
        if self._byte_level:
            return _from_letters(text)
        if self._byte_fallback and (match := _BYTE.fullmatch(text)):
            return bytes.fromhex(match[1])
        return self._replaced(text).encode()

    def bytes_of_added(self, text: str) -> bytes:
        """Return the bytes of an added token, which is spelled literally."""
        return text.encode() if self._byte_level else self._replaced(text).encode()

    def _replaced(self, text: str) -> str:
        for old, new in self._replacements:
            text = text.replace(old, new)
        return text


def _steps(decoder: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if decoder.get("type") == "Sequence":
        for inner in decoder.get("decoders", ()):
            yield from _steps(inner)
    else:
        yield decoder


def _make_letters() -> dict[str, int]:
    """Return GPT-2's alphabet: a printable letter for every byte, itself if printable in
    Latin-1.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return letters | {chr(0x100 + number): byte for number, byte in enumerate(others)}


_LETTERS = _make_letters()


def _from_letters(text: str) -> bytes:
    try:
        return bytes([_LETTERS[letter] for letter in text])
    except KeyError:  # a token added by hand as plain text
        return text.encode()
