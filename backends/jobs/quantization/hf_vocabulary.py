"""Writes the vocabulary of a safetensors model as GGUF metadata.

Sources: the `tokenizer.json` format of the tokenizers library, and llama.cpp's readers of
vocabularies.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

from ingle.models.errors import UnsupportedModel
from ingle.models.gguf.gguf_writer import Value, encode_header, encode_pair
from ingle.models.json_object import read_bounded

from ...llama_cpp.llama_tokenizer import LlamaVocabulary
from ...text.tokenization.hf_tokenizer import HFTokenizer, tokenizer_steps

_LARGEST = 256 << 20
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


_PRE_TOKENIZER_KEY = "tokenizer.ggml.pre"
_PRE_TOKENIZERS = (
    *("qwen2", "llama-bpe", "smollm", "gpt-2", "tekken", "gpt-4o", "dbrx", "refact", "olmo"),
    *("smaug-bpe", "starcoder", "qwen35", "deepseek-llm", "deepseek-coder", "deepseek-v3"),
    *("command-r", "falcon", "stablelm2", "mpt", "bloom", "exaone", "chameleon", "minerva-7b"),
    *("superbpe", "seed-coder", "hunyuan", "kimi-k2", "default"),
)
"""llama.cpp's names of pre-tokenizers, the most usual first.

A `tokenizer.json` defines its own by regular expressions: they match if the tokens are the same.

Those that leave bytes unmapped are omitted: llama.cpp aborts over merges of another alphabet.
"""
_TRIAL_TEXTS = (
    "Hello, World! It's 1 o'clock; WE'LL see you'd've I'M 'tis don't DON'T.",
    "1 12 123 1234 12345 1234567890 3.14159 0x1F4A9 1,000,000 2026-11-21 +49 30 1234567",
    "  two   three    four\ttab\t\ttabs \n newline\n\nparagraph\r\n  \n\n\n   end   ",
    "def f(x):\n    return {'a': [x**2, x<=3], \"b\": x!=y}  # ok?\n\n\tif (a&&b||!c) { i++; }\n",
    "Ünïcödé naïve façade Straße ŒUVRE Ελληνικά русский язык עברית العربية हिन्दी ไทย",
    "日本語のテキスト、中文文本。한국어 문장입니다 12３４ ﾊﾝｶｸ",
    "🙂🙃 👩‍👩‍👧‍👦 🇩🇪 ½ ² ① ∑∫√ → ★ \u200b\u00a0\u3000x e\u0301",
    "CamelCaseWords snake_case_words kebab-case-words http://example.org/a?b=c&d=%20#e a@b.co",
    "!!! ??? ... --- *** ((())) [[]] {{}} <tag attr='v'/> $100 €5 #1 50% ~/.x \\n '''\"\"\"",
)


class _Kind(IntEnum):
    """`llama_token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def vocabulary_pairs(folder: Path, rows: int, tokenizer: HFTokenizer) -> dict[str, Value]:
    """Return the vocabulary keys but for the pre-tokenizer; raises `UnsupportedModel`."""
    fields: dict[str, Any] = json.loads(read_bounded(folder / "tokenizer.json", _LARGEST))
    model = cast("dict[str, Any]", fields.get("model") or {})
    if model.get("type") != "BPE":
        raise UnsupportedModel(
            f"{folder}/tokenizer.json is of the kind {str(model.get('type'))[:40]!r}, and only "
            "byte-pair encodings can be put into a GGUF file here.",
            hint="Look for a GGUF edition of the model, or run the folder as it is.",
        )
    merges = [_merge(entry) for entry in model.get("merges", ())]
    tokens, kinds = _tokens(fields, model, rows)
    pairs: dict[str, Value] = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
    }
    if _has(fields, "ByteLevel"):
        pairs["tokenizer.ggml.model"] = "gpt2"
        pairs["tokenizer.ggml.merges"] = [f"{left} {right}" for left, right in merges]
    else:
        pairs["tokenizer.ggml.model"] = "llama"
        pairs["tokenizer.ggml.scores"] = _scores(tokens, merges)
        pairs["tokenizer.ggml.add_space_prefix"] = _prefixes(fields)
    unknown = tokenizer.id_of(str(model.get("unk_token") or ""))
    if unknown is not None:  # llama.cpp would default to 0
        pairs["tokenizer.ggml.unknown_token_id"] = unknown
    return pairs | _special(tokenizer)


def _tokens(
    fields: Mapping[str, Any], model: Mapping[str, Any], rows: int
) -> tuple[list[str], list[int]]:
    tokens = [f"[PAD{number}]" for number in range(rows)]
    kinds = [int(_Kind.UNUSED)] * rows
    unknown = model.get("unk_token")
    for text, number in model.get("vocab", {}).items():
        if number < rows:
            tokens[number] = text
            kinds[number] = _Kind.BYTE if _BYTE.fullmatch(text) else _Kind.NORMAL
            if text == unknown:
                kinds[number] = _Kind.UNKNOWN
    for token in fields.get("added_tokens", ()):
        number = token["id"]
        if number < rows:
            tokens[number] = token["content"]
            if kinds[number] != _Kind.UNKNOWN:
                kinds[number] = _Kind.CONTROL if token.get("special") else _Kind.USER_DEFINED
    return tokens, [int(kind) for kind in kinds]


def _merge(entry: Any) -> tuple[str, str]:
    """Return the two halves of a merge; older files hold one string, newer ones may contain
    spaces.
    """
    halves = cast("list[str]", entry) if isinstance(entry, list) else str(entry).split(" ", 1)
    left, right = (half.replace(" ", "Ġ") for half in halves)
    return left, right


def _scores(tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> list[float]:
    """Return the scores of tokens: the rank of the earliest merge that makes each."""
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, rank)
    last = float(len(merges))
    return [-float(ranks[token]) if token in ranks else -last for token in tokens]


def _prefixes(fields: Mapping[str, Any]) -> bool:
    """Return whether a space is prepended to a text."""
    return any(
        step.get("type") == "Prepend" or step.get("prepend_scheme") in ("first", "always")
        for part in ("normalizer", "pre_tokenizer")
        for step in tokenizer_steps(fields.get(part))
    )


def _special(tokenizer: HFTokenizer) -> dict[str, Value]:
    pairs: dict[str, Value] = {"tokenizer.ggml.add_bos_token": tokenizer.adds_bos}
    for name, text in (("bos", tokenizer.bos_text), ("eos", tokenizer.eos_text)):
        number = tokenizer.id_of(text)
        if number is not None:
            pairs[f"tokenizer.ggml.{name}_token_id"] = number
    if tokenizer.chat_template:
        pairs["tokenizer.chat_template"] = tokenizer.chat_template
    return pairs


def _has(fields: Mapping[str, Any], kind: str) -> bool:
    return any(
        step.get("type") == kind
        for part in ("pre_tokenizer", "decoder")
        for step in tokenizer_steps(fields.get(part))
    )


def find_pre_tokenizer(folder: Path, rows: int, pairs: Mapping[str, Value]) -> dict[str, Value]:
    """Return the key that completes `pairs`; raises `UnsupportedModel` if no pre-tokenizer
    matches.
    """
    tokenizer = HFTokenizer(folder, rows)
    wanted = [
        tokenizer.encode(text, add_special=False, parse_special=False) for text in _TRIAL_TEXTS
    ]
    is_bytes = pairs["tokenizer.ggml.model"] == "gpt2"
    for way in _PRE_TOKENIZERS if is_bytes else ("default",):
        if _tokens_with(pairs, way) == wanted:
            return {_PRE_TOKENIZER_KEY: way}
    raise UnsupportedModel(
        f"None of llama.cpp's pre-tokenizers gives the same tokens as {folder}/tokenizer.json.",
        hint="Look for a GGUF edition of the model, or run the folder as it is.",
    )


def _tokens_with(pairs: Mapping[str, Value], way: str) -> list[list[int]]:
    encoded = [encode_pair(key, value) for key, value in {**pairs, _PRE_TOKENIZER_KEY: way}.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        path.write_bytes(encode_header(encoded, []))
        with closing(LlamaVocabulary(path)) as vocabulary:
            return [
                vocabulary.encode(text, add_special=False, parse_special=False)
                for text in _TRIAL_TEXTS
            ]
