from __future__ import annotations

import pytest

from ingle.models.errors import ModelNotFound, UnsupportedModel
from ingle.models.sources.download_source import RemoteFile
from ingle.models.sources.hub_source import HubModel, choose_model

SOUND = ("config.json", "tokenizer.json", "model.safetensors")


def choose(tag: str | None, *names: str) -> HubModel:
    return choose_model("o/r", [RemoteFile(name) for name in names], tag)


def test_single_gguf_is_chosen_whatever_its_name() -> None:
    assert choose(None, "gemma.it.gguf").paths == ("gemma.it.gguf",)


def test_hint_lists_available_quantizations() -> None:
    with pytest.raises(ModelNotFound) as caught:
        choose("Q2_K", "m-Q8_0.gguf", "m-Q4_0.gguf")
    assert caught.value.hint == "It has: Q4_0, Q8_0."


def test_all_shards_in_order() -> None:
    names = [f"Q8_0/m-Q8_0-0000{number}-of-00003.gguf" for number in (3, 1, 2)]
    found = choose("Q8_0", *names)
    assert found.paths == tuple(sorted(names))
    assert [file.name for file in found.files] == [name[5:] for name in sorted(names)]


def test_incomplete_shards_are_not_a_model() -> None:
    with pytest.raises(ModelNotFound, match="no Q8_0"):
        choose("Q8_0", "m-Q8_0-00001-of-00002.gguf", "m-Q4_0.gguf")


def test_top_level_file_precedes_one_in_a_folder() -> None:
    assert choose("Q8_0", "old/m-Q8_0.gguf", "z-Q8_0.gguf").paths == ("z-Q8_0.gguf",)


def test_unsafe_file_names_are_ignored() -> None:
    with pytest.raises(ModelNotFound):
        choose(None, "../m-Q8_0.gguf\n", ".hidden.gguf", "a b.gguf")


def test_safetensors_with_config_and_tokenizer() -> None:
    found = choose(
        None, *SOUND, "tokenizer_config.json", "pytorch_model.bin", "modeling_x.py", "onnx/m.onnx",
        "consolidated.safetensors", "README.md",
    )  # fmt: skip
    assert found.tag == "SAFETENSORS"
    assert found.paths == ("config.json", "tokenizer.json", "tokenizer_config.json", SOUND[2])
    parts = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    assert choose("SAFETENSORS", *SOUND, *parts, "m-Q8_0.gguf").paths[2:] == parts


def test_gguf_is_preferred_over_safetensors() -> None:
    assert choose(None, *SOUND, "m-Q8_0.gguf").tag == "Q8_0"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("config.json", "pytorch_model.bin"), "pickle"),
        (("config.json", "model.safetensors"), "no tokenizer.json"),
        (("adapter_config.json", "adapter_model.safetensors"), "adapter"),
    ],
)
def test_unsupported_repositories_are_rejected(names: tuple[str, ...], reason: str) -> None:
    with pytest.raises(UnsupportedModel, match=reason):
        choose(None, *names)


def test_repository_without_a_model() -> None:
    with pytest.raises(ModelNotFound, match="neither GGUF"):
        choose(None, "README.md", "mmproj-F16.gguf")
