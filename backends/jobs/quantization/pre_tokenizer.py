"""How llama.cpp has to cut a text before it merges bytes, found by trying.

A `tokenizer.json` says it in regular expressions, and llama.cpp knows a list of ways by name. What
counts is that both come to the same tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from ingle.models.errors import UnsupportedModel
from ingle.models.gguf.gguf_writer import Value, encode_header, encode_pair

from ...llama_cpp.vocabulary import LlamaVocabulary
from ...text.tokenization.hf_tokenizer import HFTokenizer

KEY = "tokenizer.ggml.pre"
_WAYS = (
    *("qwen2", "llama-bpe", "smollm", "gpt-2", "tekken", "gpt-4o", "dbrx", "refact", "olmo"),
    *("smaug-bpe", "starcoder", "qwen35", "deepseek-llm", "deepseek-coder", "deepseek-v3"),
    *("command-r", "falcon", "stablelm2", "mpt", "bloom", "exaone", "chameleon", "minerva-7b"),
    *("superbpe", "seed-coder", "hunyuan", "kimi-k2", "default"),
)
"""Names that llama.cpp has for ways of cutting, the most usual ones first.

Not those that leave bytes as they are: it ends the process over merges of another alphabet.
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
    """The key that completes `pairs`; raises `UnsupportedModel` where no way is the same."""
    tokenizer = HFTokenizer(folder, rows)
    wanted = [tokenizer.encode(text, add_special=False, parse_special=False) for text in _TEXTS]
    is_bytes = pairs["tokenizer.ggml.model"] == "gpt2"
    for way in _WAYS if is_bytes else ("default",):
        if _tokens(pairs, way) == wanted:
            return {KEY: way}
    raise UnsupportedModel(
        f"llama.cpp cuts texts into other tokens than {folder}/tokenizer.json, whichever of its "
        "ways is taken.",
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
