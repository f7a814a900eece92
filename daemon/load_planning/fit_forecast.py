"""Forecasts whether a model fits into this machine's memory, without loading it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from ingle.models.catalog import CatalogEntry
from ingle.models.errors import ModelError
from ingle.models.fit.memory_needs import MemoryNeeds
from ingle.models.metadata.stored_model import StoredModel

from ..client.model_types import ModelFit
from .context_choice import longest_context
from .load_options import LoadOptions
from .load_planner import ModelLoadPlanner

if TYPE_CHECKING:
    from ingle.backends.advice.device_rates import DeviceRates
    from ingle.backends.base.model_info import ModelInfo
    from ingle.backends.selection.model_placement import Placement
    from ingle.models.gguf.gguf_header import GGUFHeader
    from ingle.models.safetensors.model_folder import ModelFolder

_STEP_BYTES = 64 << 20
"""Bytes of a step that do not depend on the model's size."""
_LEAST_CONTEXT = 512
_FIRST_CONTEXT = 16384
_KEPT_HEADERS = 64


class FitForecaster:
    """Forecasts for a list of models; headers are cached while their files stay the same.

    Blocking; safe in several threads.
    """

    def __init__(self, prepare: ModelLoadPlanner) -> None:
        """`prepare` plans how models are loaded."""
        self._prepare = prepare
        self._describe = lru_cache(_KEPT_HEADERS)(_describe)

    def of_model(self, model: StoredModel, available: MemoryNeeds) -> ModelFit:
        """Return the forecast for an installed model that is not loaded, given the `available`
        memory.
        """
        try:
            description = self._describe(model.path, model.path.stat().st_mtime_ns)
            options, room = self._prepare.beside_projector(model, LoadOptions(), available)
            selection = self._prepare.select(description, options, available=room)
        except (
            ModelError,
            OSError,
        ):  # the listing goes on; loading the model will report the error
            return rough_fit(model.size, model.parameters, model.context, available)
        fit = fit_of(selection, available)
        most = self._prepare.most_context(model.context)
        longest = fit.context
        if 0 < longest < most:

            def place(context: int) -> Placement:
                given = structs.replace(options, context=context)
                return self._prepare.select(description, given, available=room)

            longest = max(longest, longest_context(most, place, room))
        speed = None  # unknown with experts, of which a token needs few
        if not _has_experts(description):
            speed = _rough_speed(fit, model.size, 1.0, self._prepare.rates)
        return structs.replace(fit, longest_context=longest, tokens_per_second=speed)

    def of_entry(self, entry: CatalogEntry, available: MemoryNeeds) -> ModelFit:
        """Return the forecast for a catalog model, by the shape recorded there.

        If no installed engine would run it on the GPU, but the one that is offered would, that one
        counts as installed.
        """
        fit = self._fit_entry(self._prepare, entry, available)
        offered = self._prepare.offered
        if offered is None or fit.device == "cuda":
            return fit
        better = self._fit_entry(offered.planner, entry, available)
        if better.device == "cpu" or better.state == "no":
            return fit
        return structs.replace(
            better,
            needs_engine=offered.name,
            reason=better.reason and offered.sentence(better.reason),
        )

    def _fit_entry(
        self, planner: ModelLoadPlanner, entry: CatalogEntry, available: MemoryNeeds
    ) -> ModelFit:
        if entry.shape is not None:
            placement, speed = planner.select_entry(entry, available=available)
            return structs.replace(fit_of(placement, available), tokens_per_second=speed)
        sizes = entry.size, entry.parameters, entry.context
        fit, facts = rough_fit(*sizes, available), planner.facts
        # ingle's own engine runs whole models, and none with experts.
        own = facts.uses_gpu and fit.state == "fits" and not entry.active_parameters
        if not (fit.device == "cpu" or own or facts.llama_offloads):
            fit = rough_fit(*sizes, MemoryNeeds(available.host))
        speed = _rough_speed(fit, entry.size, _faster_by_experts(entry), planner.rates)
        return structs.replace(fit, tokens_per_second=speed)

    def measure(
        self,
        info: ModelInfo,
        taken: MemoryNeeds,
        available: MemoryNeeds,
        *,
        reason: str,
        longest_context: int = 0,
    ) -> ModelFit:
        """Return the fit of a loaded model whose process holds the memory `taken`."""
        needs = info.weights_bytes + info.kv_bytes + info.compute_bytes
        on_gpu = info.layers_on_gpu > 0
        whole = not on_gpu or info.layers_on_gpu >= info.layers
        # Of GPUs behind the first, only divided models have parts.
        both = (available + taken).gpus[: 1 + len(taken.other_gpus)]
        free = sum(both) if on_gpu else available.host
        return ModelFit(
            device="cuda" if on_gpu else "cpu",
            state="fits" if whole else "spills",
            needs_bytes=needs,
            free_bytes=max(free, needs),
            context=info.context,
            longest_context=max(info.context, longest_context),
            reason=reason,
        )


def _has_experts(description: GGUFHeader | ModelFolder) -> bool:
    from ingle.models.safetensors.model_folder import ModelFolder

    if isinstance(description, ModelFolder):
        return any(layer.experts is not None for layer in description.config.layers)
    return bool(description.integer("expert_used_count"))


def _faster_by_experts(entry: CatalogEntry) -> float:
    if not entry.active_parameters:
        return 1.0
    from ingle.backends.advice.speed_prediction import EXPERT_SHARE

    return EXPERT_SHARE * entry.parameters / entry.active_parameters


def _rough_speed(
    fit: ModelFit,
    size: int,
    faster: float,
    of_devices: tuple[DeviceRates | None, DeviceRates | None],
) -> float | None:
    """Return the tokens per second at which weights of `size` bytes are read, by this factor
    `faster` where a token needs only some of them.
    """
    rates = of_devices[fit.device == "cuda"]
    if rates is None or fit.state != "fits" or not size:
        return None
    return rates.factor * rates.weight_rate / size * faster


def fit_of(selection: Placement, available: MemoryNeeds) -> ModelFit:
    """Return the forecast for a placement."""
    needs = selection.needs
    fits = needs.fits_in(available)
    on_gpu, left = needs.gpu > 0, selection.estimate.host.weights
    free = sum(available.gpus[: 1 + len(needs.other_gpus)])
    partly = on_gpu and selection.estimate.host.kv + selection.cpu_experts > 0
    return ModelFit(
        device="cuda" if on_gpu else "cpu",
        state="no" if not fits else "spills" if partly else "fits",
        needs_bytes=sum(needs.gpus) + (left if partly else 0) if on_gpu else needs.host,
        free_bytes=max(0, free if on_gpu else available.host),
        context=selection.context if fits else 0,
        reason=selection.reason,
    )


def _describe(path: Path, modified: int) -> GGUFHeader | ModelFolder:
    """Return the header or folder description; `modified` makes changed files another cache key."""
    from ingle.backends.selection.load_spec_builder import describe

    return describe(path)


def rough_fit(size: int, parameters: int, trained: int, available: MemoryNeeds) -> ModelFit:
    """Return a forecast from a model's size alone, if its shape is not known."""
    if available.gpu > 0:
        whole = _within("cuda", size, parameters, trained, available.gpu)
        if whole.state == "fits":
            return whole
    fit = _within("cpu", size, parameters, trained, available.host)
    if available.gpu <= 0:
        return fit
    both = _within("cuda", size, parameters, trained, available.total)
    state = "spills" if both.state == "fits" else "no"
    return structs.replace(both, state=state, free_bytes=available.gpu)


def _within(
    device: Literal["cuda", "cpu"], size: int, parameters: int, trained: int, room: int
) -> ModelFit:
    from ingle.models.fit.llama_cpp_fit import largest_context

    # KV cache bytes per token, typical for Llama, Qwen and Gemma models of this size.
    per_token = max(20_000, int(28_000 * (parameters / 1e9) ** 0.7))
    step = _STEP_BYTES + size // 20

    def cost(context: int) -> int:
        return context * per_token + step

    context = largest_context(min(trained, _FIRST_CONTEXT), (room - size) // 2, cost)
    needs = size + cost(context)
    fits = needs <= room
    return ModelFit(
        device=device,
        state="fits" if fits else "no",
        needs_bytes=needs if fits else size + cost(min(trained, _LEAST_CONTEXT)),
        free_bytes=max(0, room),
        context=context if fits else 0,
    )
