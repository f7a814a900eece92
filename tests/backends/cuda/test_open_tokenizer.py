from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.cuda.model_tokenizer import open_tokenizer
from ingle.backends.text.tokenization.hf_tokenizer import HFTokenizer
from ingle.models.errors import InvalidModel


def test_safetensors_folder_uses_its_own_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"tokenizer\.json is not there"):
        open_tokenizer(tmp_path, 8)
    model: dict[str, object] = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
    decoder = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    tokenizer: dict[str, object] = {"version": "1.0", "model": model, "decoder": decoder}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    opened = open_tokenizer(tmp_path, 8)
    assert isinstance(opened, HFTokenizer)
    assert opened.vocab_size == 8
    assert opened.encode("ab", add_special=True, parse_special=True) == [0, 1]


def test_gguf_tokenizer_is_read_by_llama_cpp(tmp_path: Path, vocabularies: Path) -> None:
    opened = open_tokenizer(vocabularies / "ggml-vocab-gpt-2.gguf", 50257)
    assert opened.vocab_size == 50257
    assert opened.eos_text == "<|endoftext|>"
    with pytest.raises(LoadFailed):
        open_tokenizer(tmp_path / "missing.gguf", 8)
