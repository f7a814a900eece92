"""A model that embeds text and writes none, loaded as if it did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner


def test_an_encoder_is_refused_with_a_sentence(make_bert: Callable[..., Path]) -> None:
    spec = LoadSpec(engine="llama.cpp", path=str(make_bert()), context=64)
    with pytest.raises(LoadFailed, match=r"bert\.gguf .* does not write text"):
        LlamaModelRunner(spec)
