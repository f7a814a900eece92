"""Tokenizer of a safetensors folder: `tokenizer.json`, run by the `tokenizers` package."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer

from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.json_object import read_bounded, read_json_object
from ingle.models.safetensors.chat_template_file import read_chat_template

from .tokenizer import END_OF_FILE_TOKENS, InfillToken

_FILE = "tokenizer.json"
_LARGEST = 256 << 20
_MOST_ROWS = 1 << 22
# Tokens that end an answer in any model that has them: many configurations name only the
# end-of-document token.
_ENDS = frozenset(
    {
        *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<turn|>"),
        *("<|endoftext|>", "<|end_of_text|>", "<end_of_utterance>", "<｜end▁of▁sentence｜>"),
        *("<EOT>", "<|EOT|>", "_<EOT>", "[EOT]", "[EOS]"),
        *END_OF_FILE_TOKENS,
    }
)
# If the vocabulary has this end token, `<|end|>` only ends a message.
_HARMONY_END, _MESSAGE_END = "<|return|>", "<|end|>"

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Steps that affect only the beginning or end of a text, or join decoded pieces.
_NO_SPELLING = ("Fuse", "Strip")


class HFTokenizer:
    """Text to token ids and back, exactly as transformers does it; thread-safe."""

    def __init__(self, folder: Path, vocab_size: int | None = None) -> None:
        """`vocab_size` is the model's number of rows, some of which may have no token.

        By default it comes from `config.json`. Raises `InvalidModel` and `UnsupportedModel`.
        """
        path = folder / _FILE
        self._settings = {
            **(read_json_object(folder / "special_tokens_map.json") or {}),
            **(read_json_object(folder / "tokenizer_config.json") or {}),
        }
        config = read_json_object(folder / "config.json") or {}
        rows = vocab_size or _vocab_size(config)
        self._tokenizer = _load(path, self._settings, rows)
        self._added = self._tokenizer.get_added_tokens_decoder()
        self._spelling = _TokenSpelling(_decoder(self._tokenizer), path)
        self.vocab_size = rows or _count_ids(self._tokenizer)
        self.bos_text = self._special_text("bos_token", config)
        self.eos_text = self._special_text("eos_token", config)
        self.chat_template = read_chat_template(folder)
        configs = (read_json_object(folder / "generation_config.json") or {}, config)
        self._ends = frozenset(self._find_ends(configs))
        self._controls = self._ends | frozenset(self._find_controls())
        self._bytes: dict[int, bytes] = {}
        self._lock = threading.Lock()
        bos = self.id_of(self.bos_text)
        begins = self.encode("", add_special=True, parse_special=False)[:1]
        self.adds_bos = bos is not None and begins == [bos]

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return the text's tokens; `parse_special` recognises special tokens written out in it."""
        whole = text.encode("utf-8", "replace").decode()  # lone surrogates are not text
        with self._lock:  # the switch is the tokenizer's, not the call's
            if self._tokenizer.encode_special_tokens is parse_special:
                self._tokenizer.encode_special_tokens = not parse_special
            # A batch of one: only batches release the GIL.
            (encoding,) = self._tokenizer.encode_batch_fast([whole], add_special_tokens=add_special)
        return encoding.ids

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """Return the bytes of a token; empty for control tokens unless `special`."""
        if not special and token_id in self._controls:
            return b""
        spelled = self._bytes.get(token_id)
        if spelled is None:
            spelled = self._bytes[token_id] = self._spell(token_id)
        return spelled

    def is_eog(self, token_id: int) -> bool:
        """Return whether the token ends generation."""
        return token_id in self._ends

    def find_token(self, text: str) -> int | None:
        """Return the added token with this spelling."""
        return next((i for i, token in self._added.items() if token.content == text), None)

    @property
    def infill_tokens(self) -> Mapping[InfillToken, int]:
        """Return nothing: these files do not name infill tokens."""
        return {}

    def _spell(self, token_id: int) -> bytes:
        text = self._tokenizer.id_to_token(token_id) if token_id >= 0 else None
        if text is None:  # a row without a token
            return b""
        if token_id in self._controls:
            return text.encode()
        if token_id in self._added:
            return self._spelling.bytes_of_added(text)
        return self._spelling.bytes_of(text)

    def _special_text(self, name: str, config: Mapping[str, object]) -> str:
        """Return a special token by its role; the settings may say that there is none."""
        if name in self._settings:
            return _content(self._settings[name]) or ""
        ids = _ids(config, f"{name}_id")
        return (self._tokenizer.id_to_token(ids[0]) or "") if ids else ""

    def id_of(self, text: str) -> int | None:
        """Return the token with this spelling if the model has a row for it."""
        found = self._tokenizer.token_to_id(text) if text else None
        return found if found is not None and found < self.vocab_size else None

    def _find_ends(self, configs: tuple[Mapping[str, object], ...]) -> Iterator[int]:
        names = {token.content: token_id for token_id, token in self._added.items()}
        for text in _ENDS & names.keys():
            if text != _MESSAGE_END or _HARMONY_END not in names:
                yield names[text]
        if (eos := self.id_of(self.eos_text)) is not None:
            yield eos
        for config in configs:
            yield from (found for found in _ids(config, "eos_token_id") if found < self.vocab_size)

    def _find_controls(self) -> Iterator[int]:
        yield from (token_id for token_id, token in self._added.items() if token.special)
        unknown = self.id_of(_content(self._settings.get("unk_token")) or "")
        if unknown is not None:
            yield unknown


def _load(path: Path, settings: Mapping[str, object], rows: int | None) -> Tokenizer:
    try:
        raw = read_bounded(path, _LARGEST)
    except FileNotFoundError:
        raise _invalid(path, "is not there") from None
    tokenizer = _parse(path, raw)
    _add_missing(tokenizer, settings)
    if rows is not None and _count_ids(tokenizer) > rows:
        # Tokens of images and the like, for which the text model has no row.
        fields = cast("dict[str, list[dict[str, object]]]", json.loads(raw))
        kept = [token for token in fields["added_tokens"] if cast("int", token["id"]) < rows]
        tokenizer = _parse(path, json.dumps({**fields, "added_tokens": kept}).encode())
        if (count := _count_ids(tokenizer)) > rows:
            raise _invalid(path, f"has {count} tokens, and the model {rows}")
    # Left over from training.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _parse(path: Path, raw: bytes) -> Tokenizer:
    try:
        return Tokenizer.from_buffer(raw)
    except Exception as error:  # tokenizers raises no narrower class
        reason = " ".join(str(error).split())[:200]
        raise _invalid(path, f"is not a valid tokenizer: {reason}") from error


def _add_missing(tokenizer: Tokenizer, settings: Mapping[str, object]) -> None:
    """Add tokens that only the settings list, if their ids continue the file's."""
    listed = settings.get("added_tokens_decoder")
    tokens = cast("dict[str, object]", listed) if isinstance(listed, dict) else {}
    numbers = {int(key): token for key, token in tokens.items() if key.isdecimal()}
    missing = {
        number: content
        for number in sorted(numbers)
        if isinstance(numbers[number], dict)
        and (content := _content(numbers[number]))
        and tokenizer.token_to_id(content) is None
    }
    count = _count_ids(tokenizer) if missing else 0
    for number, content in missing.items():
        if number == count:
            special = cast("dict[str, object]", numbers[number]).get("special") is True
            added = [AddedToken(content, special=special, normalized=False)]
            count += tokenizer.add_tokens(added)  # pyright: ignore[reportUnknownMemberType]


def _decoder(tokenizer: Tokenizer) -> Mapping[str, object]:
    decoder = tokenizer.decoder
    return {} if decoder is None else json.loads(decoder.__getstate__())


def _count_ids(tokenizer: Tokenizer) -> int:
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def _vocab_size(config: Mapping[str, object]) -> int | None:
    for fields in _levels(config):
        size = fields.get("vocab_size")
        if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= _MOST_ROWS:
            return size
    return None


def _ids(config: Mapping[str, object], name: str) -> list[int]:
    """Return the token ids under a name: one, several or none."""
    for fields in _levels(config):
        found = fields.get(name)
        listed = cast("list[object]", found) if isinstance(found, list) else [found]
        ids = [n for n in listed if isinstance(n, int) and not isinstance(n, bool)]
        ids = [n for n in ids if 0 <= n < 2**32]  # what the tokenizer's own code takes
        if ids:
            return ids
    return []


def _levels(config: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield a configuration, and its part for the text model, if there is one."""
    yield config
    inner = config.get("text_config")
    if isinstance(inner, dict):
        yield cast("dict[str, object]", inner)


def _content(token: object) -> str | None:
    """Return a token's text, which may be in an object with its flags."""
    if isinstance(token, dict):
        token = cast("dict[str, object]", token).get("content")
    return token if isinstance(token, str) else None


def _invalid(path: Path, reason: str) -> InvalidModel:
    return InvalidModel(f"{path} {reason}.", hint="Download the model again.")


class _TokenSpelling:
    """Bytes of a token's text, by the steps of its vocabulary's decoder."""

    def __init__(self, decoder: Mapping[str, Any], path: Path) -> None:
        """`decoder` is that of `tokenizer.json`; raises `UnsupportedModel` for an unknown step."""
        self._byte_level = False
        self._byte_fallback = False
        self._replacements: list[tuple[str, str]] = []
        for step in tokenizer_steps(decoder):
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


def tokenizer_steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a part of `tokenizer.json`: it may be missing, one step, or a sequence."""
    if not isinstance(part, dict):
        return
    step = cast("dict[str, Any]", part)
    sequences = ("normalizers", "pretokenizers", "decoders")
    inner = next((step[name] for name in sequences if name in step), None)
    if inner is None:
        yield step
    for item in inner or ():
        yield from tokenizer_steps(item)


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
