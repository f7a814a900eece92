from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from ingle.kernels.operations import Operations
from ingle.models import families
from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.families.family_registry import FAMILIES, HF_MODEL_TYPES
from ingle.models.layers.transformer import Transformer

CPU = torch.device("cpu")
EXACT = Operations(torch.float32)


def load(config: Any, weights: Any) -> Any:
    return Transformer(config, weights, device=CPU, operations=EXACT)


def test_family_names_need_no_torch() -> None:
    code = (
        "import sys; from ingle.models.families.family_registry import FAMILIES; "
        "import ingle.models.families.gguf_config, ingle.models.families.hf_config; "
        "print(sorted(FAMILIES)); assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(sorted(FAMILIES))


def test_unknown_architecture_is_rejected(make_random_model: Any) -> None:
    model = make_random_model("llama")
    with pytest.raises(UnsupportedModel, match="mamba"):
        load(replace(model.config, architecture="mamba"), model.canonical())


def test_missing_tensor_is_named(make_random_model: Any, memory_weights: Any) -> None:
    model = make_random_model("qwen3")
    weights = model.canonical()
    tensors = {name: weights.get(name) for name in weights.names}
    del tensors["blk.1.attn_q_norm.weight"]
    with pytest.raises(InvalidModel, match=r"blk\.1\.attn_q_norm\.weight"):
        load(model.config, memory_weights(tensors))


def test_tensor_of_the_wrong_shape_is_named(make_random_model: Any) -> None:
    model = make_random_model("llama")
    with pytest.raises(InvalidModel, match=r"\(99, 48\).*\(100, 48\)"):
        load(replace(model.config, vocab_size=100), model.canonical())


def test_unused_tensor_is_rejected(make_random_model: Any, memory_weights: Any) -> None:
    """Experts, adapters and the like must not be silently ignored."""
    model = make_random_model("llama")
    weights = model.canonical()
    tensors = {name: weights.get(name) for name in weights.names}
    tensors["blk.0.ffn_gate_inp.weight"] = torch.zeros(4, 48)
    with pytest.raises(UnsupportedModel, match=r"blk\.0\.ffn_gate_inp\.weight"):
        load(model.config, memory_weights(tensors))


def test_loading_reports_progress(make_random_model: Any) -> None:
    model = make_random_model("llama")
    shares: list[float] = []
    Transformer(
        model.config,
        model.canonical(),
        device=CPU,
        operations=EXACT,
        on_progress=shares.append,
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_every_family_is_registered() -> None:
    folder = Path(families.__file__).parent
    modules = [
        import_module(".".join(("ingle.models.families", *path.relative_to(folder).parts))[:-3])
        for path in folder.rglob("[a-z]*.py")
    ]
    found = [module.FAMILY for module in modules if hasattr(module, "FAMILY")]
    names = [name for family in found for name in (family.name, *family.other_names)]
    assert sorted(names) == sorted(FAMILIES)


def test_model_types_and_names_are_unique() -> None:
    each = [family for name, family in FAMILIES.items() if name == family.name]
    types = [kind.name for family in each for kind in family.hf_types]
    assert len(types) == len(set(types)) == len(HF_MODEL_TYPES)
    assert all(family.hf_types for family in each)
