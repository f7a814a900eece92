"""The adapters of a loaded model: on the device, chosen by number for each row of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock

import torch

from ingle.kernels.matmul.low_rank import ActiveAdapters, LowRank
from ingle.models.adapters.lora_matrices import LoraMatrices
from ingle.models.config.model_config import ModelConfig
from ingle.models.errors import ModelError
from ingle.models.layers.parameters import AdaptedLayer, RankPart
from ingle.models.parallel.layer_stages import LayerStage
from ingle.models.parallel.model_shard import TensorCut

from ..base.errors import RequestRejected
from ..engine.batch import Batch
from ..engine.sequence import MOST_ADAPTERS


class LoadedAdapters:
    """Loads adapters when they are first asked for, and chooses them for the rows of a batch.

    A number is never given twice, since keys and values that one adapter computed stay cached under
    it. Requests are prepared in another thread than steps.
    """

    def __init__(
        self,
        config: ModelConfig,
        layers: Mapping[str, AdaptedLayer],
        active: ActiveAdapters,
        *,
        device: torch.device,
        dtype: torch.dtype,
        part: RankPart | None = None,
        stage: LayerStage | None = None,
    ) -> None:
        """Matrices are cut to the `part` of a rank, or are those of the layers of its `stage`."""
        self._config = config if part is None else part.shard.whole
        self._part = part
        self._layers = layers
        self.elsewhere: Mapping[str, tuple[int, int]] | None = {}
        """Outputs and inputs of the layers that other ranks compute; None if one of these checks
        adapters."""
        if stage is not None:
            self._config = stage.whole
            self._layers = {stage.name_in_whole(name): layer for name, layer in layers.items()}
        self._active = active
        self._device = device
        self._dtype = dtype
        self._numbers: dict[Path, int] = {}
        self._last = 0
        self._lock = Lock()
        self.nbytes = 0
        """Bytes of all that are loaded."""

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Outputs and inputs of the layers that are computed here, by their names in the model."""
        return {name: (layer.outputs, layer.inputs) for name, layer in self._layers.items()}

    def number_of(self, folder: Path) -> int:
        """The number of the adapter in a folder, which is loaded if it is not yet.

        Raises `RequestRejected` for one that is damaged, or does not fit the model.
        """
        with self._lock:
            if folder not in self._numbers:
                self._numbers[folder] = self._load(folder)
            return self._numbers[folder]

    def drop(self, folder: Path) -> bool:
        """Free an adapter that no running sequence uses; False if it is not loaded."""
        with self._lock:
            number = self._numbers.pop(folder, None)
            if number is None:
                return False
            for layer in self._layers.values():
                dropped = layer.adapters.matrices.pop(number, None)
                self.nbytes -= 0 if dropped is None else dropped.nbytes
            return True

    def observe(self, observer: Callable[[str, torch.Tensor], None]) -> None:
        """Pass the inputs (tokens, inputs) of each layer, with its name, to `observer`."""
        names = {id(layer.adapters): name for name, layer in self._layers.items()}
        self._active.observer = lambda layer, x: observer(names[id(layer)], x)

    def choose(self, batch: Batch) -> bool:
        """Let the next step compute each row with its sequence's adapter; False if none has one."""
        rows: dict[int, list[int]] = {}
        first = 0
        for chunk in batch.chunks:
            last = first + chunk.num_tokens
            if chunk.sequence.adapter:
                rows.setdefault(chunk.sequence.adapter, []).extend(range(first, last))
            first = last
        self._active.rows = {
            number: torch.tensor(places, device=self._device) for number, places in rows.items()
        }
        return bool(rows)

    def _load(self, folder: Path) -> int:
        if self._last == MOST_ADAPTERS:
            raise RequestRejected(
                f"The model has loaded {MOST_ADAPTERS} adapters, the most it can: unload it first."
            )
        try:
            adapter = LoraMatrices(folder)
            matrices = adapter.of_layers(
                self._config, self._layers, self.elsewhere, self._device, self._dtype
            )
        except ModelError as error:
            raise RequestRejected(f"{error.message} {error.hint or ''}".rstrip()) from error
        self._last += 1
        for name, each in matrices.items():
            if self._part is not None:
                each = _cut(each, self._part.shard.cut(f"{name}.weight"))
            self._layers[name].adapters.matrices[self._last] = each
            self.nbytes += each.nbytes
        return self._last


def _cut(matrices: LowRank, cut: TensorCut | None) -> LowRank:
    """What an adapter adds to the outputs of a rank, or to its addends of them."""
    if cut is None:
        return matrices
    part = slice(cut.part.start, cut.part.stop)
    if cut.axis == 0:
        return matrices._replace(up=matrices.up[part].clone())
    return matrices._replace(down=matrices.down[:, part].contiguous())
