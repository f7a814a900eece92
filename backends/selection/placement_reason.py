"""One-sentence explanations, with numbers, of where a model runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from ingle.models.fit.llama_cpp_fit import GPUSplit, SplitEstimate

from ..registry.engines import DEFAULT_ENGINE, all_engines, get_engine


class Why(StrEnum):
    """Why a model is not on a GPU, to follow "since"."""

    NO_GPU = "no GPU was found"
    ASKED = "gpu_layers is 0"
    NO_CODE = "it does not use GPUs"
    NO_BUILD = "this llama.cpp was built without support for the GPU"
    TOO_SMALL = "too little of the GPU's memory is free"
    TOO_LARGE_AND_NO_BUILD = (
        "the GPU has too little memory for all of it, and this llama.cpp was built without "
        "support for the GPU"
    )


@dataclass(frozen=True)
class SelectionWords:
    """Builds the sentences for a model with this many layers on the named GPU."""

    _layers: int
    _gpu: str

    def on_gpu(self, needed: int, free: int, context: int, why_not: str = "") -> str:
        """Explain that all layers are on the GPU."""
        all_of_it = f"all {self._layers} layers on the {self._gpu}"
        return _sentence(f"{all_of_it}: {_of(needed, free)}, {_context(context)}", why_not)

    def on_gpus(
        self, found: SplitEstimate, free: Sequence[int], stages: Sequence[int], context: int
    ) -> str:
        """Explain that all layers are on GPUs: parts of each on several, or as many as `stages`."""
        needed = [each.total for each in found.gpus]
        if len(needed) == 1:
            return self.on_gpu(needed[0], free[0], context)
        layers = " + ".join(map(str, stages)) if stages else f"parts of all {self._layers}"
        pairs = zip_longest(needed, free[: len(needed)], fillvalue=0)
        taken = " and ".join(f"{_gb(each)} of {_gb(max(0, room))}" for each, room in pairs)
        text = f"{layers} layers on {len(needed)} GPUs: takes {taken} GB free, {_context(context)}"
        return _sentence(text)

    def on_both(
        self,
        split: GPUSplit,
        found: SplitEstimate,
        free: int,
        context: int,
        why_not: str = "",
    ) -> str:
        """Explain that some layers are on the GPU."""
        if split.cpu_experts:
            what = f"all {self._layers} layers on the {self._gpu} but for the experts of "
            what += f"{split.cpu_experts}"
        else:
            what = f"{split.gpu_layers - 1} of {self._layers} layers on the {self._gpu}"
        rest = f"the rest {_gb(found.host.total)} GB of the machine's memory"
        numbers = f"{_of(found.gpu.total, free)}, {rest}, {_context(context)}"
        return _sentence(f"{what}: {numbers}", why_not)

    def on_cpu(
        self, engine: str, why: Why, needed: int, free: int, context: int, why_not: str = ""
    ) -> str:
        """Explain that no layer is on the GPU."""
        numbers = f"{_of(needed, free)}, {_context(context)}"
        return _sentence(f"{engine} on the CPU, since {why}: {numbers}", why_not)

    def left_to_llama(self, context: int) -> str:
        """Explain that llama.cpp decides how many layers fit."""
        unknown = f"the {self._gpu} does not report how much of its memory is free"
        return _sentence(
            f"as many of {self._layers} layers on the GPU as llama.cpp finds room for, since "
            f"{unknown}: {_context(context)}"
        )

    def shrunk(self, reason: str, asked: int) -> str:
        """Return the reason with a note that the context is shorter than requested."""
        return f"{reason.removesuffix('.')} instead of {asked:,}, which would not fit."


def _sentence(text: str, why_not: str = "") -> str:
    if why_not:
        text = f"{why_not}, so {get_engine(DEFAULT_ENGINE).title} does: {text}"
    keep = text.startswith(tuple(engine.title for engine in all_engines()))
    return f"{text if keep else text[0].upper() + text[1:]}."


def _of(needed: int, free: int) -> str:
    return f"takes {_gb(needed)} of {_gb(max(0, free))} GB free"


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f}"


def _context(context: int) -> str:
    return f"context {context:,}"
