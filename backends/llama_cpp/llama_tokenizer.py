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
        check_vocabulary(self._vocab)
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


def check_vocabulary(vocab: llama_cpp.llama_vocab_p) -> None:
    """Raise `FileRejected` for a vocabulary with which a text would end or hang the process."""
    bos, eos, sep = (
        int(find(vocab))
        for find in (_api.llama_vocab_bos, _api.llama_vocab_eos, _api.llama_vocab_sep)
    )
    kind = llama_cpp.llama_vocab_type(vocab)
    if kind == llama_cpp.LLAMA_VOCAB_TYPE_NONE:
        raise _unusable("The file has no vocabulary")
    if kind == llama_cpp.LLAMA_VOCAB_TYPE_RWKV:
        _check_first_bytes(vocab)  # it adds no tokens
        return
    if kind == llama_cpp.LLAMA_VOCAB_TYPE_WPM:
        lacking = min(bos, sep) < 0
    else:
        lacking = (llama_cpp.llama_vocab_get_add_bos(vocab) and bos < 0) or (
            llama_cpp.llama_vocab_get_add_eos(vocab) and eos < 0
        )
    if lacking:
        raise _unusable("The model's vocabulary lacks the token that begins or ends each text")
    if kind == llama_cpp.LLAMA_VOCAB_TYPE_SPM:
        _check_byte_tokens(vocab)


def _unusable(reason: str) -> FileRejected:
    return FileRejected(
        f"{reason}.", hint="The file is damaged, or was badly converted: use another one."
    )


def _check_byte_tokens(vocab: llama_cpp.llama_vocab_p) -> None:
    """Raise `FileRejected` unless all bytes have tokens.

    llama.cpp encodes what no token spells byte by byte without checking that the byte has a token:
    the first text that needs a missing one ends the process.
    """
    missing = {b"<0x%02X>" % value: value for value in range(256)}
    plain = {bytes([value]) for value in range(128)}
    spelled: set[int] = set()
    for text in _texts(vocab):
        if missing.pop(text, None) is not None and not missing:
            return
        if text in plain:
            spelled.add(text[0])
    lacking = [value for value in missing.values() if value not in spelled]
    if lacking:
        raise _unusable(f"The model's vocabulary has no token for the byte 0x{lacking[0]:02X}")


def _check_first_bytes(vocab: llama_cpp.llama_vocab_p) -> None:
    """Raise `FileRejected` unless each byte that begins a token is a token.

    llama.cpp would look for ever for the longest token at a place where none fits.
    """
    alone: set[bytes] = set()
    firsts: set[bytes] = set()
    for text in _texts(vocab):
        plain = _ESCAPE.sub(_unescaped, text)
        firsts.add(plain[:1])
        if len(plain) == 1:
            alone.add(plain)
    if lacking := sorted(firsts - alone - {b""}):
        raise _unusable(f"The model's vocabulary has no token for the byte 0x{lacking[0][0]:02X}")


_ESCAPE = re.compile(rb"\\(?:x(.)(.)|(.))", re.DOTALL)
_NAMED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


def _unescaped(found: re.Match[bytes]) -> bytes:
    """Return what llama.cpp makes of an escape in a token, which for capital digits is odd."""
    if found[1]:
        high, low = (digit[0] - (87 if digit >= b"a" else 48) for digit in found.group(1, 2))
        return bytes([(16 * high + low) % 256])
    return _NAMED.get(found[3], found[3])


def _texts(vocab: llama_cpp.llama_vocab_p) -> Iterator[bytes]:
    for token_id in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        yield llama_cpp.llama_vocab_get_text(vocab, token_id)
