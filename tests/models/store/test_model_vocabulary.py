from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.errors import ModelError
from ingle.models.store.draft_finder import Vocabulary, read_vocabulary

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder

STRING, ARRAY = 8, 9


def words(count: int) -> list[str]:
    return [f"word{number}" for number in range(count)]


@pytest.fixture
def written(tiny: GGUFBuilder, tmp_path: Path) -> Callable[..., Vocabulary]:
    def write(tokens: list[str], bos: int = 1, kind: str = "gpt2") -> Vocabulary:
        tiny.set("tokenizer.ggml.tokens", ARRAY, tokens, STRING)
        tiny.set("tokenizer.ggml.bos_token_id", 4, bos)
        tiny.set("tokenizer.ggml.model", STRING, kind)
        path = tmp_path / "m.gguf"
        path.write_bytes(tiny.build())
        return read_vocabulary(path)

    return write


def test_padding_tokens_are_ignored(written: Callable[..., Vocabulary]) -> None:
    one = written(words(1000))
    assert one.size == 1000
    assert one.matches(written(words(1000)))
    padded = [*words(1000), *(f"[PAD{n}]" for n in range(129))]
    assert one.matches(written(padded[:-1]))
    assert not one.matches(written(padded))
    assert not one.matches(written(words(1200)))


@pytest.mark.parametrize("changed", [0, 500, 950])
def test_one_different_token_is_another_vocabulary(
    written: Callable[..., Vocabulary], changed: int
) -> None:
    other = words(1000)
    other[changed] = "other"
    assert not written(words(1000)).matches(written(other))


def test_special_token_settings_are_compared(written: Callable[..., Vocabulary]) -> None:
    one = written(words(1000))
    assert not one.matches(written(words(1000), bos=2))
    assert not one.matches(written(words(1000), kind="llama"))


def test_folder_vocabulary_is_read_from_its_tokenizer(
    written: Callable[..., Vocabulary], tmp_path: Path
) -> None:
    vocab = {word: number for number, word in enumerate(words(999))}
    added = [{"id": 999, "content": "word999", "special": True}]
    text = json.dumps({"model": {"vocab": vocab}, "added_tokens": added})
    (tmp_path / "tokenizer.json").write_text(text)
    found = read_vocabulary(tmp_path)
    assert found.size == 1000
    assert found.matches(written(words(1000)))


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        json.dumps({"model": {"vocab": {"a": 10**12}}}),
        json.dumps({"model": {"vocab": ["a"]}, "added_tokens": [1, {"id": "x"}]}),
    ],
)
def test_invalid_tokenizers_have_no_vocabulary(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError):
        read_vocabulary(tmp_path)


def test_invalid_files_have_no_vocabulary(tmp_path: Path, tiny: GGUFBuilder) -> None:
    path = tmp_path / "m.gguf"
    whole = tiny.set("tokenizer.ggml.tokens", ARRAY, words(100), STRING).build()
    at = whole.index(b"word50")
    for content in (b"", whole[:at], whole[: at - 8] + b"\xff" * 8 + whole[at:]):
        path.write_bytes(content)
        with pytest.raises(ModelError):
            read_vocabulary(path)
    with pytest.raises(ModelError):
        read_vocabulary(tmp_path / "missing.gguf")


@pytest.mark.model
def test_vocabulary_of_a_real_model(smollm2_path: Path) -> None:
    found = read_vocabulary(smollm2_path)
    assert (found.size, dict(found.marks)["pre"]) == (49152, "smollm")
