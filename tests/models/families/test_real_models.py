"""Real quantised models compute the same logits as transformers with the same weights in fp32."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.models.families.gguf_config import config_from_gguf
from ingle.models.weights.gguf_tensor_names import GGUFTensorNames
from ingle.models.weights.gguf_weights import GGUFWeights

_TOKENS = 40


def _reference(path: Path) -> Any:
    """Return the model dequantised by transformers; `from_pretrained` needs another package."""
    transformers: Any = import_module("transformers")
    files: Any = import_module("transformers.modeling_gguf_pytorch_utils")
    config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    config._attn_implementation = "eager"
    module = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    tensors = files.load_gguf_checkpoint(path, return_tensors=True, model_to_load=module)
    missing, unexpected = module.load_state_dict(tensors["tensors"], strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert not unexpected
    module.tie_weights()
    return module


@pytest.mark.slow  # the reference takes half a minute to dequantise
@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2", "gemma3", "qwen2.5-coder:0.5b"])
def test_logits_equal_those_of_the_dequantised_weights(
    name: str, fetch_model: Callable[[str], Path], compute_logits: Any
) -> None:
    path = fetch_model(name)
    file = GGUFWeights(path)
    config = config_from_gguf(file.header)
    random = torch.Generator().manual_seed(5)
    tokens = torch.randint(100, config.vocab_size - 100, (_TOKENS,), generator=random)
    found = compute_logits(config, GGUFTensorNames(file, config), tokens)
    with torch.no_grad():
        expected = _reference(path)(tokens[None]).logits[0]
    assert float((found - expected).norm() / expected.norm()) < 1e-4
    assert torch.equal(found.argmax(-1), expected.argmax(-1))
