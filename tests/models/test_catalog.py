from __future__ import annotations

import pytest

from ingle.models.catalog import Catalog, HubLocation, PackageIndexLocation

ONE = """
default = "tiny"
[[models]]
name = "tiny"
tag = "1b"
description = "d"
licence = "MIT"
parameters = 1
quantization = "Q4_0"
context = 1
chat = true
file = "tiny.gguf"
size = 1
sha256 = "{digest}"
{more}
[[models.sources]]
{source}
"""


def one(
    more: str = "", source: str = 'type = "url"\nurl = "https://x.example/t.gguf"', digest: str = ""
) -> bytes:
    return ONE.format(more=more, source=source, digest=digest or "0" * 64).encode()


@pytest.fixture
def catalog() -> Catalog:
    return Catalog.load()


def test_default_model_comes_from_the_package_index_first(catalog: Catalog) -> None:
    entry = catalog.default
    assert entry.full_name == "smollm2:135m"
    assert isinstance(entry.sources[0], PackageIndexLocation)
    assert isinstance(entry.sources[1], HubLocation)
    assert entry.sampling == {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.1}
    assert entry.chat


def test_every_entry_is_complete(catalog: Catalog) -> None:
    assert len(catalog.entries) >= 4
    for entry in catalog.entries:
        assert entry.licence
        assert entry.description.endswith(".")
        assert entry.size > 10e6
    assert not catalog.entries[-1].chat


def test_catalog_has_a_model_for_every_memory_size(catalog: Catalog) -> None:
    chatting = [entry for entry in catalog.entries if entry.chat]
    for gigabytes in (1, 2, 4, 8, 12, 24):
        largest = max(entry.size for entry in chatting if entry.size < gigabytes * 1e9 * 0.85)
        assert largest > gigabytes * 1e9 * 0.4, f"nothing makes use of {gigabytes} GB"


def test_file_sizes_are_plausible(catalog: Catalog) -> None:
    digests = [entry.sha256 for entry in catalog.entries]
    assert len(set(digests)) == len(digests)
    for entry in catalog.entries:
        assert 2.5 < 8 * entry.size / entry.parameters < 18, entry.full_name
        if (shape := entry.shape) is not None:
            weights = shape.layer_bytes + shape.input_bytes * (not shape.tied_bytes)
            weights += shape.output_bytes + shape.tied_bytes
            assert 0.9 * entry.size < weights < entry.size, entry.full_name
        for location in entry.sources:
            if isinstance(location, HubLocation):
                assert location.file == entry.file


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3", "qwen3:4b"),
        ("gpt-oss", "gpt-oss:20b"),
        ("smollm2", "smollm2:135m"),
        ("SmolLM2:135M", "smollm2:135m"),
        ("smollm2-135m", "smollm2:135m"),
        (" smollm2 ", "smollm2:135m"),
        ("qwen2.5-coder", "qwen2.5-coder:0.5b"),
        ("qwen2.5-coder:1.5b", "qwen2.5-coder:1.5b"),
        ("gemma3", "gemma3:270m"),
        ("gemma4", "gemma4:e4b"),
    ],
)
def test_find_by_name(catalog: Catalog, name: str, expected: str) -> None:
    entry = catalog.find(name)
    assert entry is not None
    assert entry.full_name == expected


@pytest.mark.parametrize("name", ["", "smol", "smollm2:1b", "smollm2:", "../smollm2"])
def test_unknown_names_are_not_found(catalog: Catalog, name: str) -> None:
    assert catalog.find(name) is None


def test_suggestions_for_misspelled_names(catalog: Catalog) -> None:
    assert catalog.suggestions("smolm2") == ["smollm2:135m"]
    assert "qwen2.5-coder:1.5b" in catalog.suggestions("qwen-coder:1.5b")
    assert catalog.suggestions("zzzzzz") == []


def test_small_catalog() -> None:
    assert Catalog.parse(one()).default.full_name == "tiny:1b"


@pytest.mark.parametrize(
    "text",
    [
        one(more='colour = "red"'),
        one(more='aliases = ["no/slash"]'),
        one(more='aliases = ["hf.co"]'),
        one(digest="A" * 64),
        one(digest="0" * 63),
        one(source='type = "ftp"\nurl = "x"'),
        one(source='type = "url"\nurl = "x"\nextra = 1'),
        one(source='type = "hub"\nrepo = "../x"\nfile = "a.gguf"'),
        one(source='type = "hub"\nrepo = "a/b"\nfile = "../a.gguf"'),
        one(source='type = "hub"\nrepo = "a/b"\nfile = "a.gguf"\nrevision = "../x"'),
        one(source='type = "package_index"\nrequirements = []'),
        one(source='type = "package_index"\nrequirements = ["six"]'),
        one(source='type = "package_index"\nrequirements = ["--index-url=x==1"]'),
        one(source='type = "package_index"\nrequirements = ["six @ file:///x"]'),
        one().replace(b'"tiny.gguf"', b'"../tiny.gguf"'),
        one().replace(b'default = "tiny"', b'default = "other"'),
        one().replace(b"size = 1", b"size = 0"),
        b"not toml",
    ],
)
def test_invalid_catalog_is_rejected(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Catalog.parse(text)


def test_duplicate_names_are_rejected() -> None:
    entry = Catalog.parse(one()).default
    with pytest.raises(ValueError, match="two models"):
        Catalog([entry, entry], "tiny")
