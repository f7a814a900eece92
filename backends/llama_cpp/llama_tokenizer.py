"""llama.cpp's tokenizer for the vocabulary in a GGUF file."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import llama_cpp

from ..base.errors import FileRejected
from ..text.tokenization.encoder_inputs import PairMarks
from ..text.tokenization.tokenizer import END_OF_FILE_TOKENS, InfillToken
from .llama_model import LlamaModel
from .native_log import NativeLog

_LONG = 2**14
"""Characters above which a text with control tokens is tokenised in segments."""

_CONTROL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
_KINDS = _CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP
_api: Any = llama_cpp  # the binding annotates plain integers as C types


class LlamaTokenizer:
    """Text to token ids and back, exactly as llama.cpp does it; thread-safe."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._vocab = model.vocab
        check_byte_tokens(self._vocab)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self.adds_bos = llama_cpp.llama_vocab_get_add_bos(self._vocab)
        self.bos_text = self._text_of(_api.llama_vocab_bos(self._vocab))
        self.eos_text = self._text_of(_api.llama_vocab_eos(self._vocab))
        self._adds_end = llama_cpp.llama_vocab_get_add_eos(
            self._vocab
        ) or llama_cpp.llama_vocab_get_add_sep(self._vocab)
        self._pieces: dict[int, bytes] = {}
        found = (self.find_token(text) for text in END_OF_FILE_TOKENS)
        self._next_files = frozenset(token_id for token_id in found if token_id is not None)

    @property
    def chat_template(self) -> str | None:
        """Return the chat template that came with the vocabulary."""
        return self._model.chat_template

    @property
    def pair_marks(self) -> PairMarks:
        """Return the special tokens around a pair of texts, by the vocabulary's own flags."""
        vocab = self._vocab
        sep: int = _api.llama_vocab_sep(vocab)
        eos: int = _api.llama_vocab_eos(vocab)
        bos: int = _api.llama_vocab_bos(vocab)
        ends = [eos if eos >= 0 else sep] if llama_cpp.llama_vocab_get_add_eos(vocab) else []
        separators = [sep] if llama_cpp.llama_vocab_get_add_sep(vocab) else []
        begins = [bos] if self.adds_bos else []
        return PairMarks(begins, ends + separators, ends or separators)

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the text's tokens; `parse_special` recognises special tokens written out in it."""
        if parse_special and len(text) > _LONG and not self._adds_end:
            first, *others = self._cut(text)
            tokens = self._encode(first, add_special=add_special, parse_special=True)
            for piece in others:
                tokens += self._encode(piece, add_special=False, parse_special=True)
            return tokens
        return self._encode(text, add_special=add_special, parse_special=parse_special)

    def _cut(self, text: str) -> Iterator[str]:
        """Split a long text before control tokens, where tokenisation splits it anyway.

        llama.cpp's time for control tokens is quadratic in their number.
        """
        begin = 0
        while begin < len(text):
            found = self._controls.search(text, begin + _LONG) if self._controls else None
            end = len(text) if found is None else found.start()
            yield text[begin:end]
            begin = end

    @cached_property
    def _controls(self) -> re.Pattern[str] | None:
        """Return a pattern for control tokens, except those that consume spaces before them."""
        ids = range(self.vocab_size)
        attributes = ((i, llama_cpp.llama_vocab_get_attr(self._vocab, i)) for i in ids)
        found = [self._text_of(i) for i, attribute in attributes if attribute & _KINDS == _CONTROL]
        texts = sorted((text for text in found if text), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts))) if texts else None

    def _encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        capacity = len(data) + 8
        while True:
            tokens = (llama_cpp.llama_token * capacity)()
            count = llama_cpp.llama_tokenize(
                self._vocab, data, len(data), tokens, capacity, add_special, parse_special
            )
            if count >= 0:
                return list(tokens[:count])
            capacity = -count  # as many as are needed

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """Return the bytes of a token; empty for control tokens unless `special`."""
        if special:
            return self._piece(token_id, special=True)
        piece = self._pieces.get(token_id)
        if piece is None:
            piece = self._pieces[token_id] = self._piece(token_id, special=False)
        return piece

    def is_eog(self, token_id: int) -> bool:
        """Return whether the token ends generation."""
        return token_id in self._next_files or llama_cpp.llama_vocab_is_eog(self._vocab, token_id)

    def find_token(self, text: str) -> int | None:
        """Return the special token spelled like this, None without one."""
        tokens = self.encode(text, add_special=False, parse_special=True)
        found = len(tokens) == 1 and self._piece(tokens[0], special=True) == text.encode()
        return tokens[0] if found else None

    @property
    def infill_tokens(self) -> Mapping[InfillToken, int]:
        """Return the infill (FIM) tokens that llama.cpp finds by metadata or name."""
        marks: dict[InfillToken, int] = {
            "prefix": _api.llama_vocab_fim_pre(self._vocab),
            "suffix": _api.llama_vocab_fim_suf(self._vocab),
            "middle": _api.llama_vocab_fim_mid(self._vocab),
            "repository": _api.llama_vocab_fim_rep(self._vocab),
            "file": _api.llama_vocab_fim_sep(self._vocab),
        }
        return {mark: token_id for mark, token_id in marks.items() if token_id >= 0}

    def _piece(self, token_id: int, *, special: bool) -> bytes:
        capacity = 256
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            size = llama_cpp.llama_token_to_piece(
                self._vocab, token_id, buffer, capacity, 0, special
            )
            if size >= 0:
                return buffer.raw[:size]
            capacity = -size  # as many as are needed

    def _text_of(self, token_id: int) -> str:
        if token_id < 0:
            return ""
        return self._piece(token_id, special=True).decode("utf-8", "replace")


class LlamaVocabulary(LlamaTokenizer):
    """llama.cpp's tokenizer for a file whose weights another engine loads."""

    def __init__(self, path: Path) -> None:
        """Read the vocabulary; raises `LoadFailed`."""
        with closing(NativeLog()) as log:
            super().__init__(LlamaModel(path, vocab_only=True, log=log))

    def close(self) -> None:
        """Free the vocabulary; it cannot be used afterwards."""
        self._model.close()


def check_byte_tokens(vocab: llama_cpp.llama_vocab_p) -> None:
    """Raise `LoadFailed` for a vocabulary without tokens for all bytes.

    llama.cpp encodes what no token spells byte by byte without checking that the byte has a token:
    the first text that needs a missing one ends the process.
    """
    if llama_cpp.llama_vocab_type(vocab) != llama_cpp.LLAMA_VOCAB_TYPE_SPM:
        return
    missing = {b"<0x%02X>" % value: value for value in range(256)}
    plain = {bytes([value]) for value in range(128)}
    spelled: set[int] = set()
    for token_id in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        text = llama_cpp.llama_vocab_get_text(vocab, token_id)
        if missing.pop(text, None) is not None and not missing:
            return
        if text in plain:
            spelled.add(text[0])
    lacking = [value for value in missing.values() if value not in spelled]
    if lacking:
        raise FileRejected(
            f"The model's vocabulary has no token for the byte 0x{lacking[0]:02X}.",
            hint="The file is damaged, or was badly converted: use another one.",
        )
