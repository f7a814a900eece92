"""Vocabularies without weights, against llama.cpp's test vectors and the loaded model."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.sampling_params import Grammar, GrammarKind
from ingle.backends.llama_cpp.llama_tokenizer import LlamaVocabulary
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.backends.text.structured_output.grammar_compiler import GrammarCompiler

ReadVectors = Callable[[str], list[tuple[str, list[int]]]]
WITH_VECTORS = [
    *("bert-bge", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4", "gpt-2"),
    *("llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact", "starcoder"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_VECTORS)
def test_tokens_equal_llama_cpps_vectors(
    vocabularies: Path, read_vectors: ReadVectors, name: str
) -> None:
    vocabulary = LlamaVocabulary(vocabularies / f"ggml-vocab-{name}.gguf")
    vectors = read_vectors(name)
    assert len(vectors) > 40
    found = [
        (text, vocabulary.encode(text, add_special=False, parse_special=False))
        for text, _ in vectors
    ]
    vocabulary.close()
    assert found == vectors


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_VECTORS)
def test_long_texts_are_tokenised_like_whole_ones(
    vocabularies: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They are split at control tokens, which is much faster."""
    vocabulary = LlamaVocabulary(vocabularies / f"ggml-vocab-{name}.gguf")
    ids = range(vocabulary.vocab_size)
    special = [
        vocabulary.token_bytes(i, special=True) for i in ids if not vocabulary.token_bytes(i)
    ]
    controls = [text.decode("utf-8", "replace") for text in special][:40]
    words = [*controls, "two words", "  ", "\n", " é", "<|", "|>", "\t<", "1234", "x"]
    text = "".join(random.Random(1).choices(words, k=1500))
    for special_ends in (True, False):
        asked: dict[str, Any] = {"add_special": special_ends, "parse_special": True}
        monkeypatch.setattr("ingle.backends.llama_cpp.llama_tokenizer._LONG", 10**9)
        whole = vocabulary.encode(text, **asked)
        monkeypatch.setattr("ingle.backends.llama_cpp.llama_tokenizer._LONG", 50)
        assert vocabulary.encode(text, **asked) == whole
    vocabulary.close()


def test_all_vocabularies_with_vectors_are_tested(vocabularies: Path) -> None:
    found = {path.name for path in vocabularies.glob("*.gguf")}
    assert found == {f"ggml-vocab-{name}.gguf" for name in WITH_VECTORS}


@pytest.mark.model
def test_vocabulary_equals_the_loaded_models_tokenizer(
    smollm2_path: Path, load_model: Callable[..., LlamaModelRunner]
) -> None:
    loaded = load_model(smollm2_path, context=256, slots=1).tokenizer
    vocabulary = LlamaVocabulary(smollm2_path)
    assert vocabulary.chat_template == loaded.chat_template
    for name in ("vocab_size", "bos_text", "eos_text", "adds_bos"):
        assert getattr(vocabulary, name) == getattr(loaded, name)
    for special in (True, False):
        text = "<|im_start|>user\nÉtude №5 🧑‍🚀<|im_end|>"
        asked: dict[str, Any] = {"add_special": special, "parse_special": special}
        assert vocabulary.encode(text, **asked) == loaded.encode(text, **asked)
    for token in range(0, vocabulary.vocab_size, 97):
        assert vocabulary.token_bytes(token) == loaded.token_bytes(token)
        assert vocabulary.is_eog(token) == loaded.is_eog(token)
    vocabulary.close()


def test_invalid_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "noise.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(LoadFailed, match=r"noise\.gguf"):
        LlamaVocabulary(path)


def test_grammar_with_a_vocabulary_that_prepends_a_space(vocabularies: Path) -> None:
    """Text forced by a grammar has no such space, because it is within a text."""
    vocabulary = LlamaVocabulary(vocabularies / "ggml-vocab-llama-spm.gguf")
    spaced = vocabulary.encode("hello", add_special=False, parse_special=False)
    assert b"".join(map(vocabulary.token_bytes, spaced)) == b" hello"
    grammar = Grammar(GrammarKind.REGEX, r"\{ ?\"größe\": (hello|42)\}")
    constraint = GrammarCompiler(vocabulary).compile(grammar)
    written = b""
    while not constraint.complete:
        allowed: list[int] = np.flatnonzero(constraint.mask()).tolist()
        token = max(allowed, key=lambda token: len(vocabulary.token_bytes(token)))
        constraint.consume(token)
        written += vocabulary.token_bytes(token)
        assert constraint.error is None
    vocabulary.close()
    assert written.decode() in ('{ "größe": hello}', '{"größe": hello}')
