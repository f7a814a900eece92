"""Loading an encoder-only embedding model for generation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingle.backends.base.errors import LoadFailed
from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.llama_cpp.model_runner import LlamaModelRunner


def test_encoder_is_rejected_for_generation(make_bert: Callable[..., Path]) -> None:
    spec = LoadSpec(engine="llama.cpp", path=str(make_bert()), context=64)
    with pytest.raises(LoadFailed, match=r"bert\.gguf .* does not write text"):
        LlamaModelRunner(spec)
