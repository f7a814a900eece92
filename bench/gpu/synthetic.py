"""Runners of untrained models in the shapes of known ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from gpu.random_model import RandomWeights, llama_config
from gpu.session import Session

from ingle.backends.base.load_spec import LoadSpec
from ingle.backends.cuda.model_files import ModelFiles, ModelSource
from ingle.backends.text.tokenization.tokenizer import InfillToken
from ingle.models.config.model_config import ModelConfig
from ingle.models.kv_type import KVType

EIGHT_B = llama_config(
    layers=32, hidden=4096, heads=32, kv_heads=8, intermediate=14336, vocabulary=128256
)
ONE_B = llama_config(
    layers=16, hidden=2048, heads=32, kv_heads=8, intermediate=8192, vocabulary=128256
)
TINY = llama_config(layers=2, hidden=512, heads=8, kv_heads=2, intermediate=1024, vocabulary=700)
TINIER = llama_config(layers=1, hidden=512, heads=8, kv_heads=2, intermediate=512, vocabulary=700)


class NumberedTokens:
    """The vocabulary of a model that has seen no text: a token is its number."""

    bos_text = eos_text = ""
    adds_bos = False
    chat_template = None

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Return numbers separated by spaces."""
        del add_special, parse_special
        return [int(word) for word in text.split()]

    def token_bytes(self, token_id: int, *, special: bool = False) -> bytes:
        """The number and a space."""
        del special
        return b"%d " % token_id

    def is_eog(self, token_id: int) -> bool:
        """Nothing ends a text."""
        del token_id
        return False

    def find_token(self, text: str) -> int | None:
        """None is written otherwise."""
        del text

    @property
    def infill_tokens(self) -> Mapping[InfillToken, int]:
        """Return none."""
        return {}


def source(
    config: ModelConfig, device: torch.device, kind: Callable[[str], str], seed: int = 0
) -> ModelSource:
    """Return a random model, each matrix of the type that `kind` returns."""
    weights = RandomWeights(config, device, seed, kind)
    size = sum(rows * columns for rows, columns in weights.matrices)
    files = ModelFiles(config, weights, parameters=size, stored_bytes=size)
    return ModelSource(files, NumberedTokens(config.vocab_size))


def spec(session: Session, *, context: int, slots: int, capacity: int, batch: int) -> LoadSpec:
    """How the runners are loaded."""
    return LoadSpec(
        engine="cuda",
        path="synthetic",
        context=context,
        slots=slots,
        kv_capacity=capacity,
        batch=batch,
        device="cpu" if session.on_cpu else "cuda",
        kv_type=KVType.BF16,
        kernel_cache=str(session.folder),
    )
