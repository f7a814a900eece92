"""`models.fit` estimates from a header against what llama.cpp allocates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingle.backends.base.model_info import ModelInfo
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner
from ingle.models.fit.llama_cpp_fit import LoadParameters, estimate_memory
from ingle.models.fit.model_shape import shape_of
from ingle.models.gguf.gguf_header import read_header
from ingle.models.kv_type import KVType

pytestmark = pytest.mark.model

SLOTS = 8


@pytest.fixture(params=["smollm2", "gemma3"])
def path(request: pytest.FixtureRequest, fetch_model: Callable[[str], Path]) -> Path:
    return fetch_model(request.param)


@pytest.fixture
def load(path: Path, load_model: Callable[..., LlamaModelRunner]) -> Callable[..., ModelInfo]:
    """Return a context manager that loads the model."""

    def load(**fields: Any) -> ModelInfo:
        runner = load_model(path, slots=SLOTS, **fields)
        runner.close()
        return runner.info()

    return load


@pytest.mark.slow
@pytest.mark.parametrize("context", [1000, 4096])
@pytest.mark.parametrize("kv_type", KVType)
def test_estimated_cache_and_buffers_match_llama_cpp(
    path: Path, load: Callable[..., ModelInfo], context: int, kv_type: KVType
) -> None:
    info = load(context=context, kv_type=kv_type)
    estimate = estimate_memory(
        shape_of(read_header(path)), LoadParameters(context=context, slots=SLOTS, kv_type=kv_type)
    )
    assert estimate.kv == pytest.approx(info.kv_bytes, rel=0.005)
    assert estimate.compute == pytest.approx(info.compute_bytes, rel=0.06)


@pytest.mark.parametrize("context", [1024, 4096])
def test_estimate_without_flash_attention_includes_the_scores(
    path: Path, load: Callable[..., ModelInfo], context: int
) -> None:
    info = load(context=context, flash_attention="off")
    estimate = estimate_memory(
        shape_of(read_header(path)),
        LoadParameters(context=context, slots=SLOTS, flash_attention=False),
    )
    assert estimate.kv == pytest.approx(info.kv_bytes, rel=0.005)
    assert estimate.compute == pytest.approx(info.compute_bytes, rel=0.06)
