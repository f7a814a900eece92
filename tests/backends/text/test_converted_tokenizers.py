"""Vocabularies in `tokenizer.json` and in GGUF files produce the same tokens."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from ingle.backends.llama_cpp.llama_tokenizer import LlamaVocabulary
from ingle.backends.text.tokenization.hf_tokenizer import HFTokenizer

ReadVectors = Callable[[str], list[tuple[str, list[int]]]]
# The pre-tokenization patterns from the models' repositories; GGUF files contain only their names.
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
WORDS = {"gpt-2": "", "llama-bpe": _LLAMA3, "qwen2": _LLAMA3.replace("{1,3}", "")}
CHAT = "<|im_start|>system\nDu bist 🤖.<|im_end|>\n<|im_start|>user\nHow's 3+4?<|im_end|>\n"


def read_strings(path: Path, key: str) -> list[str]:
    """Read a list of strings from the metadata of a GGUF file."""
    content = path.read_bytes()
    offset = content.index(key.encode()) + len(key)
    kind, element, count = struct.unpack_from("<IIQ", content, offset)
    assert (kind, element) == (9, 8)
    offset += 16
    found: list[str] = []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", content, offset)
        found.append(content[offset + 8 : offset + 8 + length].decode())
        offset += 8 + length
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", WORDS)
def test_tokens_match_the_test_vectors_of_llama_cpp(
    vocabularies: Path, read_vectors: ReadVectors, tmp_path: Path, name: str
) -> None:
    path = vocabularies / f"ggml-vocab-{name}.gguf"
    vocab = {token: n for n, token in enumerate(read_strings(path, "tokenizer.ggml.tokens"))}
    pairs = (merge.split(" ") for merge in read_strings(path, "tokenizer.ggml.merges"))
    merges = [(left, right) for left, right in pairs]
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=name == "llama-bpe"))
    words = [pre_tokenizers.Split(Regex(WORDS[name]), "isolated")] if WORDS[name] else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not words)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    converted = HFTokenizer(tmp_path)
    vectors = read_vectors(name)
    found = [
        (text, converted.encode(text, add_special=False, parse_special=False))
        for text, _ in vectors
    ]
    assert found == vectors
    for _, tokens in vectors:
        b"".join(map(converted.token_bytes, tokens)).decode()


@pytest.mark.model
def test_smollm2_folder_and_gguf_have_the_same_tokens(
    smollm2_folder: Path, smollm2_path: Path, vocabularies: Path, read_vectors: ReadVectors
) -> None:
    converted, original = HFTokenizer(smollm2_folder), LlamaVocabulary(smollm2_path)
    assert converted.vocab_size == original.vocab_size
    assert converted.chat_template == original.chat_template
    assert (converted.bos_text, converted.eos_text) == (original.bos_text, original.eos_text)
    texts = [CHAT, *(text for text, _ in read_vectors("qwen2"))]
    for parse in (True, False):
        for text in texts:
            options: dict[str, bool] = {"add_special": False, "parse_special": parse}
            assert converted.encode(text, **options) == original.encode(text, **options)
    for token in range(original.vocab_size):
        for special in (True, False):
            assert converted.token_bytes(token, special=special) == (
                original.token_bytes(token, special=special)
            )
        assert converted.is_eog(token) == original.is_eog(token)
    original.close()
