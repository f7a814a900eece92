"""Finds the llama.cpp pre-tokenizer that matches a `tokenizer.json`, by trial.

A `tokenizer.json` defines it by regular expressions, llama.cpp by a list of names. They match if
both produce the same tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ingle.models.errors import UnsupportedModel
from ingle.models.gguf.gguf_writer import Value, encode_header, encode_pair

from ...llama_cpp.llama_tokenizer import LlamaVocabulary
from ...text.tokenization.hf_tokenizer import HFTokenizer

KEY = "tokenizer.ggml.pre"
_WAYS = (
    *("qwen2", "llama-bpe", "smollm", "gpt-2", "tekken", "gpt-4o", "dbrx", "refact", "olmo"),
    *("smaug-bpe", "starcoder", "qwen35", "deepseek-llm", "deepseek-coder", "deepseek-v3"),
    *("command-r", "falcon", "stablelm2", "mpt", "bloom", "exaone", "chameleon", "minerva-7b"),
    *("superbpe", "seed-coder", "hunyuan", "kimi-k2", "default"),
)
"""llama.cpp's names of pre-tokenizers, the most usual first.

Those that leave bytes unmapped are omitted: llama.cpp aborts over merges of another alphabet.
"""
_TEXTS = (
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


def find_pre_tokenizer(folder: Path, rows: int, pairs: Mapping[str, Value]) -> dict[str, Value]:
    """Return the key that completes `pairs`; raises `UnsupportedModel` if no pre-tokenizer
    matches.
    """
    tokenizer = HFTokenizer(folder, rows)
    wanted = [tokenizer.encode(text, add_special=False, parse_special=False) for text in _TEXTS]
    is_bytes = pairs["tokenizer.ggml.model"] == "gpt2"
    for way in _WAYS if is_bytes else ("default",):
        if _tokens(pairs, way) == wanted:
            return {KEY: way}
    raise UnsupportedModel(
        f"None of llama.cpp's pre-tokenizers gives the same tokens as {folder}/tokenizer.json.",
        hint="Look for a GGUF edition of the model, or run the folder as it is.",
    )


def _tokens(pairs: Mapping[str, Value], way: str) -> list[list[int]]:
    encoded = [encode_pair(key, value) for key, value in {**pairs, KEY: way}.items()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocabulary.gguf"
        path.write_bytes(encode_header(encoded, []))
        vocabulary = LlamaVocabulary(path)
        try:
            return [
                vocabulary.encode(text, add_special=False, parse_special=False) for text in _TEXTS
            ]
        finally:
            vocabulary.close()
