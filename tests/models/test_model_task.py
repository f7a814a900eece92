from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ingle.models.errors import UnsupportedModel
from ingle.models.gguf.gguf_header import GGUFHeader, read_header
from ingle.models.gguf.gguf_support import check_supported
from ingle.models.model_task import (
    ModelTask,
    Pooling,
    choose_pooling,
    is_causal,
    is_encoder,
    task_of,
)

pytestmark = pytest.mark.quick

if TYPE_CHECKING:
    from .conftest import GGUFBuilder

    Header = Callable[[GGUFBuilder], GGUFHeader]

UINT32, BOOL, ARRAY = 4, 7, 9


@pytest.fixture
def header(tmp_path: Path) -> Header:
    def write_and_read(tiny: GGUFBuilder) -> GGUFHeader:
        path = tmp_path / "model.gguf"
        path.write_bytes(tiny.build())
        return read_header(path)

    return write_and_read


def test_language_model_generates(tiny: GGUFBuilder, header: Header) -> None:
    model = header(tiny)
    assert task_of(model) is ModelTask.GENERATE
    assert is_causal(model)
    assert not is_encoder(model)


@pytest.mark.parametrize(
    ("number", "task", "pooling"),
    [
        (1, ModelTask.EMBED, Pooling.MEAN),
        (2, ModelTask.EMBED, Pooling.CLS),
        (3, ModelTask.EMBED, Pooling.LAST),
        (4, ModelTask.RERANK, Pooling.RANK),
    ],
)
def test_declared_pooling_determines_the_task(
    tiny: GGUFBuilder, header: Header, number: int, task: ModelTask, pooling: Pooling
) -> None:
    model = header(tiny.set("llama.pooling_type", UINT32, number))
    assert task_of(model) is task
    assert choose_pooling(model, task) is pooling


def test_bidirectional_model_embeds(tiny: GGUFBuilder, header: Header) -> None:
    model = header(tiny.set("llama.attention.causal", BOOL, False))
    assert task_of(model) is ModelTask.EMBED
    assert choose_pooling(model, ModelTask.EMBED) is Pooling.MEAN


def test_encoder_embeds(make_bert: Callable[..., Path]) -> None:
    bert = read_header(make_bert())
    assert is_encoder(bert)
    assert task_of(bert) is ModelTask.EMBED
    assert task_of(read_header(make_bert("ranks.gguf", ranks=True))) is ModelTask.RERANK


def test_classifier_head_without_declared_pooling_ranks(
    tiny: GGUFBuilder, header: Header, new_tensor: Callable[..., object]
) -> None:
    tiny.tensors.append(new_tensor("cls.output.weight", (64,)))  # pyright: ignore[reportArgumentType]
    assert task_of(header(tiny)) is ModelTask.RERANK


def test_classifier_with_several_classes_is_rejected(tiny: GGUFBuilder, header: Header) -> None:
    tiny.set("llama.pooling_type", UINT32, 4)
    tiny.set("llama.classifier.output_labels", ARRAY, ["yes"])
    check_supported(header(tiny))
    tiny.set("llama.classifier.output_labels", ARRAY, ["harmless", "injection"])
    with pytest.raises(UnsupportedModel, match="sorts texts into classes"):
        check_supported(header(tiny))
