"""A random small Whisper model, made with transformers and converted by CTranslate2."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from string import ascii_letters
from typing import Any

LANGUAGES = ("en", "de")
_SCALE = 15.0
"""Of the logits, so that some tokens are probable."""


def write_whisper(folder: Path) -> Path:
    """Write a model in CTranslate2's format; returns its folder."""
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    source, target = folder / "transformers", folder / "ctranslate2"
    source.mkdir(parents=True)
    special = _write_tokenizer(source / "tokenizer.json")
    torch.manual_seed(6)
    config = transformers.WhisperConfig(
        vocab_size=256 + len(special) + 1501,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        init_std=0.2,
        pad_token_id=256,
        bos_token_id=256,
        eos_token_id=256,
        decoder_start_token_id=257,
        suppress_tokens=[],
        begin_suppress_tokens=[256],
    )
    model = transformers.WhisperForConditionalGeneration(config)
    with torch.no_grad():
        model.model.decoder.layer_norm.weight.mul_(_SCALE)
        model.model.decoder.embed_tokens.weight[_unwritten()] = 0  # they are improbable
    places = {token: 256 + number for number, token in enumerate(special)}
    model.generation_config.lang_to_id = {
        f"<|{code}|>": places[f"<|{code}|>"] for code in LANGUAGES
    }
    model.generation_config.alignment_heads = [[1, 0], [1, 1]]
    model.save_pretrained(source)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 448}
    (source / "tokenizer_config.json").write_text(json.dumps(settings))
    converters: Any = import_module("ctranslate2.converters")
    converters.TransformersConverter(str(source), copy_files=["tokenizer.json"]).convert(
        str(target), quantization="float16"
    )
    return target


def _letters() -> list[str]:
    """Return what stands for each byte, by its token."""
    pre_tokenizers: Any = import_module("tokenizers.pre_tokenizers")
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def _unwritten() -> list[int]:
    """Return the tokens of bytes that are neither a letter nor a space."""
    words = ascii_letters + "Ġ"
    return [number for number, letter in enumerate(_letters()) if letter not in words]


def _write_tokenizer(path: Path) -> list[str]:
    """Write a tokenizer of bytes; returns its special tokens."""
    tokenizers: Any = import_module("tokenizers")
    vocabulary = {letter: number for number, letter in enumerate(_letters())}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    special = [
        *("<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES)),
        *("<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"),
        *("<|nospeech|>", "<|notimestamps|>"),
    ]
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, special=True) for token in special])
    tokenizer.save(str(path))
    return special
