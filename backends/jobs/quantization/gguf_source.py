"""Reads a GGUF file, or all shards of a model, as the source of a smaller one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ingle.models.errors import InvalidModel, UnsupportedModel
from ingle.models.gguf.gguf_header import TensorInfo, read_header
from ingle.models.gguf.gguf_writer import PlannedTensor, read_pairs

from ...llama_cpp.ggml_library import GGMLLibrary
from .arrays import Floats, Raw
from .tensor_source import TensorSource
from .type_mixture import QuantizedShape

_OWN_KEYS = frozenset(("general.file_type", "general.quantization_version", "general.alignment"))
FLOATS = frozenset(("F32", "F16", "BF16"))
_GOOD_ENOUGH = FLOATS | {"Q8_0"}


class GGUFSource(TensorSource):
    """Reads one tensor at a time; unknown metadata keys are copied unchanged."""

    def __init__(self, path: Path, *, requantize: bool) -> None:
        """Raises what `read_header` raises, and `UnsupportedModel` for a quantised source."""
        header = read_header(path)
        self.importance = {}
        self.path = path
        self.quantization = header.quantization
        self.size = header.tensor_bytes
        self.shape = QuantizedShape(
            architecture=header.architecture,
            layers=header.block_count,
            heads=max(header.head_counts, default=0),
            kv_heads=max(header.kv_head_counts, default=0),
            experts=header.integer("expert_count") or 0,
        )
        self.tensors = [PlannedTensor(t.name, t.shape, t.type) for t in header.tensors]
        self._files = header.files
        self._infos = {tensor.name: tensor for tensor in header.tensors}
        coarse = {t.type for t in header.tensors} - _GOOD_ENOUGH
        if coarse and not requantize:
            raise UnsupportedModel(
                f"{path.name} is quantised to {self.quantization} already, and would lose "
                "more than a better source does.",
                hint="Use the edition in F16, BF16 or Q8_0, or add --requantize.",
            )

    @property
    def files(self) -> Sequence[Path]:
        """See `TensorSource.files`."""
        return self._files

    def pairs(self) -> Sequence[bytes]:
        """See `TensorSource.pairs`."""
        return [
            pair
            for key, pair in read_pairs(self._files[0])
            if key not in _OWN_KEYS and not key.startswith("split.")
        ]

    def floats(self, tensor: PlannedTensor, library: GGMLLibrary) -> Floats:
        """See `TensorSource.floats`."""
        stored = self._infos[tensor.name]
        return library.decode(self._read(stored), stored.type).reshape(-1, tensor.shape[0])

    def raw(self, tensor: PlannedTensor) -> Raw | None:
        """See `TensorSource.raw`."""
        stored = self._infos[tensor.name]
        return self._read(stored) if stored.type == tensor.type else None

    def _read(self, tensor: TensorInfo) -> Raw:
        path = self._files[tensor.file]
        with path.open("rb") as file:
            file.seek(tensor.offset)
            raw = np.fromfile(file, np.uint8, tensor.bytes)
        if raw.size != tensor.bytes:
            raise InvalidModel(
                f"{path} became shorter while it was read.", hint="Download it again."
            )
        return raw
