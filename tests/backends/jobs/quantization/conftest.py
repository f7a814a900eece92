"""Fixtures: safetensors folders as transformers saves them, and comparison of GGUF files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ingle.models.gguf.gguf_header import read_header
from tests.harness.text_models import causal_model

MakeTokenizer = Callable[..., Tokenizer]
MakeFolder = Callable[..., Path]
_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
_WORDS = [
    "the thin hen in the inn; then 12 hens, I'm 34 \n\n  and  ünïcode ",
    "def f(x): return x+1",
]

_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@pytest.fixture(scope="session")
def make_tokenizer() -> MakeTokenizer:
    """Return a factory of BPE tokenizers: byte-level with a split pattern, or of characters."""

    def make(pattern: str | None) -> Tokenizer:
        if pattern is None:
            tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
            tokenizer.normalizer = normalizers.Sequence(
                [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            )
            tokenizer.decoder = decoders.Sequence(
                [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
            )
            extra = [f"<0x{value:02X}>" for value in range(256)]
            trainer: Any = trainers.BpeTrainer(vocab_size=400, special_tokens=_SPECIAL + extra)
        else:
            tokenizer = Tokenizer(models.BPE())
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(pattern), "isolated"),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )
            tokenizer.decoder = decoders.ByteLevel()
            letters = pre_tokenizers.ByteLevel.alphabet()
            trainer = trainers.BpeTrainer(
                vocab_size=400, special_tokens=_SPECIAL, initial_alphabet=letters
            )
        tokenizer.train_from_iterator(_WORDS * 3, trainer)  # pyright: ignore[reportUnknownMemberType]
        return _without_byte_specials(tokenizer)

    return make


def _without_byte_specials(tokenizer: Tokenizer) -> Tokenizer:
    """Turn special byte tokens into ordinary ones; only the trainer needs them as special."""
    fields: dict[str, Any] = json.loads(tokenizer.to_str())
    fields["added_tokens"] = [t for t in fields["added_tokens"] if t["content"] in _SPECIAL]
    return Tokenizer.from_str(json.dumps(fields))


@pytest.fixture
def make_folder(make_tokenizer: MakeTokenizer, tmp_path: Path) -> MakeFolder:
    """Return a factory that saves a random model of a model type; keywords change its settings."""
    transformers: Any = import_module("transformers")

    def make(kind: str, *, pattern: str | None = _QWEN2, **settings: Any) -> Path:
        tokenizer = make_tokenizer(pattern)
        values: Mapping[str, Any] = {**_SHAPE, "vocab_size": tokenizer.get_vocab_size() + 3}
        config = transformers.AutoConfig.for_model(kind, **{**values, **settings})
        module = causal_model(config).bfloat16()
        random = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.normal_(1.0 if "norm" in name else 0.0, 0.2, generator=random)
        folder = tmp_path / "model"  # llama.cpp expects additional data of a Phi-3 with such a name
        module.save_pretrained(folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"bos_token": "<s>", "eos_token": "</s>"})
        )
        return folder

    return make


@pytest.fixture(scope="session")
def tensor_bytes() -> Callable[[Path], dict[str, tuple[str, bytes]]]:
    """Return a function that reads the type and bytes of every tensor of a GGUF file."""

    def read(path: Path) -> dict[str, tuple[str, bytes]]:
        raw = path.read_bytes()
        return {
            tensor.name: (tensor.type, raw[tensor.offset : tensor.offset + tensor.bytes])
            for tensor in read_header(path).tensors
        }

    return read
