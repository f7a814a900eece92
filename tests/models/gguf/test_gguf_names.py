from __future__ import annotations

from pathlib import Path

import pytest

from ingle.models.gguf.gguf_names import (
    Shard,
    is_language_model,
    model_stem,
    parse_shard,
    quantization_in,
    quantization_of,
    shard_paths,
)


def test_shard_names() -> None:
    shard = parse_shard("big-Q8_0-00002-of-00003.gguf")
    assert shard == Shard("big-Q8_0", 2, 3)
    assert [path.name for path in shard_paths(Path("/m/big-Q8_0-00002-of-00003.gguf"))] == [
        f"big-Q8_0-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    ]
    assert shard_paths(Path("/m/x.gguf")) == [Path("/m/x.gguf")]


@pytest.mark.parametrize(
    "name", ["m.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-00001-of-99999.gguf"]
)
def test_names_that_are_not_shards(name: str) -> None:
    assert parse_shard(name) is None


def test_grouping_files_into_models() -> None:
    assert is_language_model("a-Q8_0.GGUF")
    assert not any(
        map(
            is_language_model,
            ("mmproj-F16.gguf", "x.imatrix.gguf", "a.safetensors", "a/mtp-b-Q8_0.gguf"),
        )
    )
    assert model_stem("SmolLM2-135M-Instruct.Q4_1.gguf") == "SmolLM2-135M-Instruct"
    assert model_stem("big-Q8_0-00001-of-00002.gguf") == "big"
    assert quantization_in("plain.gguf") is None


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("Model-IQ2_XXS.gguf", "IQ2_XXS"),
        ("Model-UD-Q3_K_XL.gguf", "UD-Q3_K_XL"),
        ("gpt-oss-20b-MXFP4.gguf", "MXFP4"),
        ("model-bf16.gguf", "BF16"),
        ("big-Q8_0-00001-of-00003.gguf", "Q8_0"),
        ("F16/model-F16.gguf", "F16"),
        ("gemma.it.gguf", "GEMMA-IT"),
    ],
)
def test_quantization_from_a_file_name(name: str, quantization: str) -> None:
    assert quantization_of(name) == quantization
