"""The tensors and settings of heads that draft, in the form of one more layer of their model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ingle.kernels.formats.weight import Weight

from ..config.model_config import ModelConfig
from ..weights.weights import Weights
from .head_tensors import mtp_tensors, with_mtp_layer


@dataclass(frozen=True)
class HeadFiles:
    """The settings of a head as the last layer of its model, and its tensors by canonical names."""

    config: ModelConfig
    weights: Weights
    title: str
    """What kind of head it is."""


class RenamedWeights:
    """Some tensors of `source`, each under another name."""

    def __init__(self, source: Weights, names: Mapping[str, str]) -> None:
        """`names` are those in the source, by the new ones."""
        self._source = source
        self._names = names

    @property
    def names(self) -> Iterable[str]:
        """Every tensor there is."""
        return self._names.keys()

    def get(self, name: str) -> Weight:
        """The tensor; raises what the source raises."""
        return self._source.get(self._names.get(name, name))


def find_mtp_head(
    raw: Weights, config: ModelConfig, canonical: Callable[[Weights, ModelConfig], Weights]
) -> HeadFiles | None:
    """The head among the tensors of a model as they are stored; None if there is none.

    Of several layers for prediction the first drafts all tokens. `canonical` names and splits
    tensors as those of the model are.
    """
    found = mtp_tensors(raw.names, config)
    if found is None:
        return None
    whole = with_mtp_layer(config)
    return HeadFiles(whole, canonical(RenamedWeights(raw, found), whole), "MTP head")
