from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingle.models.catalog import Catalog
from ingle.models.errors import InvalidModel
from ingle.models.metadata.stored_model import StoredModel
from ingle.models.model_task import ModelTask
from ingle.models.places.found_model import Place
from ingle.models.places.model_folders import find_in_plain_folder
from ingle.models.store.draft_finder import DraftFinder, read_vocabulary
from ingle.models.store.model_store import ModelStore

if TYPE_CHECKING:
    from ..conftest import GGUFBuilder

Sized = Callable[..., StoredModel]


@pytest.fixture
def sized(tiny: GGUFBuilder, tmp_path: Path) -> Sized:
    """Return a function that writes a model whose header claims so many `parameters`."""

    def write(name: str, parameters: int, family: str = "a") -> StoredModel:
        tokens = [f"{family}{number}" for number in range(200)]
        path = tmp_path / "models" / f"{name}.gguf"
        path.parent.mkdir(exist_ok=True)
        tiny.set("tokenizer.ggml.tokens", 9, tokens, 8)
        tiny.set("tokenizer.ggml.token_type", 9, [1] * 200, 5)
        tiny.set("tokenizer.ggml.scores", 9, [0.0] * 200, 6)
        path.write_bytes(tiny.build())
        model = ModelStore(tmp_path / "store", Catalog.load()).resolve(str(path))
        return msgspec.structs.replace(model, name=name, parameters=parameters)

    return write


def test_smaller_models_of_the_family_best_first(sized: Sized) -> None:
    big = sized("big", 10_000)
    others = [
        sized("half", 5_000), sized("tenth", 900), sized("tiny", 10), sized("same", 9_000),
        sized("stranger", 1_000, family="b"),
    ]  # fmt: skip
    found = DraftFinder().find(big, [big, *others])
    assert [model.name for model in found] == ["tenth", "half", "tiny"]


def test_embedding_models_are_no_draft_models(sized: Sized) -> None:
    big, small = sized("big", 10_000), sized("small", 1_000)
    embeds = msgspec.structs.replace(small, task=ModelTask.EMBED)
    assert DraftFinder().find(big, [embeds]) == []
    assert DraftFinder().find(embeds, [small]) == []


def test_damaged_and_missing_files_are_skipped(sized: Sized) -> None:
    big, small, gone = sized("big", 10_000), sized("small", 1_000), sized("gone", 1_000)
    small.path.write_bytes(small.path.read_bytes()[:100])
    gone.path.unlink()
    finder = DraftFinder()
    assert finder.find(big, [small, gone]) == []
    mended = sized("small", 1_000)
    assert finder.find(big, [mended]) == [mended]


@pytest.mark.parametrize(("size", "readable"), [(1000 << 10, True), ((64 << 20) + 1, False)])
def test_tokenizer_of_a_folder_is_read_up_to_64_mib(
    tmp_path: Path, size: int, readable: bool
) -> None:
    vocabulary = {f"token{number}": number for number in range(100)}
    text = json.dumps({"model": {"vocab": vocabulary}}).encode()
    (tmp_path / "tokenizer.json").write_bytes(text.ljust(size))
    if readable:
        assert read_vocabulary(tmp_path).size == 100
    else:
        with pytest.raises(InvalidModel):
            read_vocabulary(tmp_path)


def test_store_finds_a_draft_model_among_all_models(sized: Sized, tmp_path: Path) -> None:
    small = sized("small", 1_000)
    place = Place("Mine", small.path.parent, find_in_plain_folder)
    store = ModelStore(tmp_path / "store", Catalog.load(), [place])
    big = msgspec.structs.replace(
        small, name="big", parameters=10 * small.parameters, path=tmp_path / "b"
    )
    big.path.write_bytes(small.path.read_bytes())
    counted = store.resolve("small")
    big = msgspec.structs.replace(big, parameters=10 * counted.parameters)
    assert store.find_draft(big) == counted
    assert store.find_draft(counted) is None
