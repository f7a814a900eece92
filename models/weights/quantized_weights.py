"""The tensors of a quantised checkpoint of safetensors, each matrix as one."""

from __future__ import annotations

from ingle.kernels.formats.weight import Weight

from ..safetensors.model_folder import ModelFolder
from ..safetensors.quantized.stored_matrices import StoredMatrices, fail
from .bitsandbytes_weights import BitsandbytesWeights
from .safetensors_weights import SafetensorsWeights
from .weights import Weights


class QuantizedWeights:
    """The tensors of `source`, its `matrices` in a format of the engine or in float32."""

    def __init__(self, source: SafetensorsWeights, matrices: StoredMatrices) -> None:
        self._source = source
        self._matrices = matrices.by_name
        self.names = [name for name in source.names if name not in matrices.taken]
        """Every tensor there is, without those that a matrix is stored in."""
        self.names += self._matrices

    def get(self, name: str) -> Weight:
        """The tensor; raises `InvalidModel` or `UnsupportedModel`."""
        matrix = self._matrices.get(name)
        if matrix is None:
            return self._source.get(name)
        tensors = {role: self._source.get_raw(part.name) for role, part in matrix.parts.items()}
        try:
            return matrix.format.read(matrix.parts, tensors)
        except ValueError as error:
            fail(str(self._source.folder), name, matrix.format, error)


def open_folder_weights(folder: ModelFolder) -> Weights:
    """The tensors of a folder by the checkpoint's names; raises as `SafetensorsWeights`."""
    source = SafetensorsWeights(folder.path)
    if folder.matrices is None:
        return BitsandbytesWeights(source)
    return QuantizedWeights(source, folder.matrices)
