"""Whether a model would fit into this machine's memory, told without opening its file."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal

import msgspec

from ingle.backends.own_engine import OwnEngine
from ingle.models.fit import largest_context

from .model_run import ModelRun

_STEP_BYTES = 64 << 20
"""What a step takes beside what grows with the model."""
_LEAST_CONTEXT = 512
_SHARE_OF_GPU = 0.8
"""Weights may take so much of a GPU's memory, as in `choose_engine`."""


class ModelFit(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model would run and what it would take: bytes, and tokens of context.

    `spills`: a part of it would not be on the GPU. `free_bytes` is what it could have of that
    device's memory when idle models give way. A forecast within a fifth, but what a loaded model
    really has; `context` is 0 where there is no room for any.
    """

    device: Literal["cuda", "cpu"]
    state: Literal["fits", "spills", "no"]
    needs_bytes: int
    free_bytes: int
    context: int


class FitForecaster:
    """Forecasts from a model's size alone: quick enough for a whole list of models."""

    def __init__(self, find: Callable[[], OwnEngine] = OwnEngine.find) -> None:
        self._find = find

    @cached_property
    def _own(self) -> OwnEngine:
        return self._find()

    def forecast(self, *, size: int, parameters: int, trained: int, available: int) -> ModelFit:
        """For a model that is not loaded, where models can have `available` bytes of RAM."""
        own = self._own
        gpu = own.gpu_memory if own.has_torch else 0
        if gpu and size <= _SHARE_OF_GPU * gpu:
            return _within("cuda", size, parameters, trained, gpu)
        fit = _within("cpu", size, parameters, trained, available)
        if not gpu:
            return fit
        both = _within("cuda", size, parameters, trained, gpu + available)
        spills = "spills" if both.state == "fits" else "no"
        return msgspec.structs.replace(both, state=spills, free_bytes=gpu)

    def measure(self, run: ModelRun, *, available: int) -> ModelFit | None:
        """For a model that is loaded; None while its numbers are not known."""
        info = run.info
        if info is None:
            return None
        needs = info.weights_bytes + info.kv_bytes + info.compute_bytes
        if info.layers_on_gpu == 0:
            free = max(available, needs)
            return ModelFit(
                device="cpu",
                state="fits",
                needs_bytes=needs,
                free_bytes=free,
                context=info.context,
            )
        return ModelFit(
            device="cuda",
            state="fits" if info.layers_on_gpu >= info.layers else "spills",
            needs_bytes=needs,
            free_bytes=max(self._own.gpu_memory, needs),
            context=info.context,
        )


def _within(
    device: Literal["cuda", "cpu"], size: int, parameters: int, trained: int, room: int
) -> ModelFit:
    per_token = _bytes_a_token(parameters)
    step = _STEP_BYTES + size // 20

    def cost(context: int) -> int:
        return context * per_token + step

    context = largest_context(trained, (room - size) // 2, cost)
    needs = size + cost(context)
    fits = needs <= room
    return ModelFit(
        device=device,
        state="fits" if fits else "no",
        needs_bytes=needs if fits else size + cost(min(trained, _LEAST_CONTEXT)),
        free_bytes=max(0, room),
        context=context if fits else 0,
    )


def _bytes_a_token(parameters: int) -> int:
    """KV cache bytes a token, as they are in Llama, Qwen and Gemma models of this many weights."""
    return max(20_000, int(28_000 * (parameters / 1e9) ** 0.7))
