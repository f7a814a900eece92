"""Backends to test with."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.load_spec import LoadSpec
from ingle.models.errors import SourceUnavailable
from ingle.models.file_lock import FileLock
from ingle.models.sources.package_index_source import (
    _ClientRun,  # pyright: ignore[reportPrivateUsage]  # a source keeps one file of the archive
    find_client,
)

# Read when llama.cpp's OpenMP is loaded; without it two decoding processes slow each other tenfold.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

MakeSpec = Callable[..., LoadSpec]
Vectors = list[tuple[str, list[int]]]

# The source of the binding, which has llama.cpp's own tests of its tokenizers.
_BINDING = "0.3.36"
_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
_BETWEEN_TEXTS = "\n__ggml_vocab_test__\n"


@pytest.fixture
def scripted_spec() -> MakeSpec:
    """Makes load specifications of scripted models; keywords are the fields of `Script`."""

    def make(*, context: int = 512, slots: int = 8, **script: object) -> LoadSpec:
        return LoadSpec(
            engine="scripted",
            path="scripted",
            context=context,
            slots=slots,
            script=json.dumps(script),
        )

    return make


@pytest.fixture(scope="session")
def vocabularies(model_cache: Path, unavailable: Callable[[str], None]) -> Path:
    """llama.cpp's vocabularies that come with texts and their tokens, out of its binding's source.

    Fetched like a model, as an archive of which nothing is executed, and cached beside the models.
    """
    folder = model_cache / f"vocabularies-{_BINDING}"
    with FileLock(model_cache / ".locks" / "vocabularies.lock") as lock:
        while not lock.try_acquire():
            time.sleep(0.1)
        if not folder.exists():
            try:
                _fetch_vocabularies(folder)
            except SourceUnavailable as error:
                unavailable(error.message)
    return folder


def _fetch_vocabularies(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        requirement = f"llama-cpp-python=={_BINDING}"
        run = _ClientRun(find_client(), requirement, scratch, lambda count: None, _SHA256)
        any_file = "vendor/llama.cpp/models/ggml-vocab-gpt-2.gguf"
        unpacked = run.unpacked(any_file).parent
        chosen = Path(scratch) / "chosen"
        chosen.mkdir()
        for expected in unpacked.glob("ggml-vocab-*.gguf.out"):
            vocabulary = expected.with_suffix("")
            for path in (vocabulary, vocabulary.with_suffix(".gguf.inp"), expected):
                path.rename(chosen / path.name)
        chosen.rename(folder)


@pytest.fixture(scope="session")
def read_vectors(vocabularies: Path) -> Callable[[str], Vectors]:
    """Reads the texts for a vocabulary, each with the tokens that llama.cpp expects."""

    def read(name: str) -> Vectors:
        path = vocabularies / f"ggml-vocab-{name}.gguf"
        texts = path.with_suffix(".gguf.inp").read_bytes().decode().split(_BETWEEN_TEXTS)
        lines = path.with_suffix(".gguf.out").read_text().splitlines()
        if len(texts) == len(lines) + 1 and not texts[-1]:
            del texts[-1]  # the last one ends with what stands between two
        expected = [[int(token) for token in line.split()] for line in lines]
        return list(zip(texts, expected, strict=True))

    return read
