"""Computes reference logits with `transformers`: dequantised weights, all in float32."""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ...base.errors import LoadFailed
from .logit_comparison import Logits


class TransformersScorer:
    """A model loaded with `from_pretrained`, GGUF or safetensors; no code of the model's runs."""

    def __init__(self, path: Path) -> None:
        """Load the file or folder; raises `LoadFailed`."""
        needed = ("transformers", "gguf") if path.is_file() else ("transformers",)
        missing = [name for name in needed if find_spec(name) is None]
        if missing:
            raise LoadFailed(
                f"Comparing with transformers needs {' and '.join(missing)}.",
                hint=f"Install: pip install {' '.join(missing)}.",
            )
        self._library: Any = import_module("transformers")
        try:
            self._model: Any = self._load(path)
        except Exception as error:  # the library raises arbitrary exceptions
            raise LoadFailed(
                f"transformers cannot load {path.name}: {_first_line(error)}.",
                hint="Compare a .gguf file with llama.cpp, or update transformers.",
            ) from error
        self._model.eval()
        self._cache: Any = None

    @property
    def device(self) -> str:
        """Return the compute device in words."""
        return f"CPU, {torch.get_num_threads()} threads"

    def begin(self) -> None:
        """See `Scorer.begin`."""
        self._cache = self._library.DynamicCache(config=self._model.config)

    def read(self, window: Tokens[int], start: int, end: int) -> Logits:
        """See `Scorer.read`."""
        token_ids = torch.tensor([list(window[start:end])])
        with torch.inference_mode():
            output = self._model(token_ids, past_key_values=self._cache, use_cache=True)
        logits: torch.Tensor = output.logits[0]
        return logits.float().numpy()

    def close(self) -> None:
        """Free the weights."""
        self._model = self._cache = None

    def _load(self, path: Path) -> Any:
        folder, options = path, {"use_safetensors": True}
        if path.is_file():
            folder, options = path.parent, {"gguf_file": path.name}
        return self._library.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.float32,
            # The only implementation with every model's soft caps and windows.
            attn_implementation="eager",
            trust_remote_code=False,
            local_files_only=True,
            **options,
        )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    # A KeyError, for one, has only the key as its message.
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
