"""The runner of models that see pictures on our own engine."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import torch

from ingle.kernels.kv_cache.kv_pages import KeyBias
from ingle.models.errors import ModelError
from ingle.models.vision.vision_registry import open_vision

from ...base.model_info import ModelInfo
from ...engine.batch import Batch
from ..compute_backend import ComputeBackend
from ..model_files import ModelSource
from ..model_runner import CudaModelRunner
from .step_pictures import StepPictures, pictures_of_step
from .torch_picture_encoder import TorchPictureEncoder, Turns


class PictureModelRunner(CudaModelRunner):
    """One model and the encoder of its pictures on one device.

    Steps with tokens of a picture are not recorded, nor are those of a sequence in which positions
    have several axes. A model whose encoder cannot be used is loaded without.
    """

    _blind = ""
    """Why it does not see."""
    _shown: StepPictures | None = None
    _projector = ""

    @property
    def state_key(self) -> str:
        """See `ModelRunner`; with another encoder, the same picture has other keys."""
        return f"{super().state_key}, {self._projector}"

    @torch.inference_mode()
    def launch(self, batch: Batch) -> None:
        """See `CudaModelRunner`."""
        with self._turns, self._showing(batch):
            super().launch(batch)

    @torch.inference_mode()
    def compute(self, batch: Batch) -> torch.Tensor:
        """Logits of all positions that sample; see `CudaModelRunner`."""
        with self._showing(batch):
            return super().compute(batch)

    def info(self) -> ModelInfo:
        """See `LocalRunner`."""
        info = super().info()
        warnings = [*info.warnings, *([self._blind] if self._blind else [])]
        return msgspec.structs.replace(info, warnings=warnings)

    def close(self) -> None:
        """Free weights, pages, buffers and the encoder."""
        self.pictures = self._shown = None
        super().close()

    @contextmanager
    def _showing(self, batch: Batch) -> Generator[None]:
        """Compute the pictures of the batch within; steps that are recorded later have none."""
        shown = self._shown = pictures_of_step(batch, self._where.device)
        self._steps.has_pictures = shown is not None
        self._inputs.last_seen = None if shown is None else shown.last_seen
        self.head.show(None if shown is None else shown.input)
        try:
            yield
        finally:
            self._shown = self._inputs.last_seen = None
            self.head.show(None)
            self._steps.has_pictures = False

    def _forward(self) -> torch.Tensor:
        if self._shown is None:
            return super()._forward()
        inputs = self._inputs
        return self._model.forward(
            inputs.token_ids,
            inputs.positions,
            self._context,
            inputs.output_rows,
            self._shown.input,
        )

    def _load(self, source: ModelSource, backend: ComputeBackend | None) -> None:
        self._turns = Turns()
        super()._load(source, backend)
        path = Path(self._spec.projector_path or self._spec.path)
        device, dtype = self._where.device, self._backend.operations.dtype
        try:
            vision, size = open_vision(path, self._config.hidden_size, device=device, dtype=dtype)
        except ModelError as error:
            self._blind = f"{error.message[:-1]}: the model does not see pictures."
            return
        vision.tower.turn = self._turns
        self._encoder_bytes = vision.tower.config.workspace_bytes
        self.pictures = TorchPictureEncoder(
            vision, self.tokenizer, device, most_tokens=self._spec.batch
        )
        self._weights_bytes += size
        stat = path.stat()
        self._projector = f"projector {stat.st_size} {stat.st_mtime_ns}"

    def _make_room(self) -> None:
        """See `CudaModelRunner`; what the encoding of a picture takes on a GPU is left free."""
        room = self._encoder_bytes if self._where.is_gpu and self.pictures is not None else 0
        held = torch.empty(room, dtype=torch.uint8, device=self._where.device)
        super()._make_room()
        del held

    def _find_key_biases(self) -> list[KeyBias | None]:
        """None where keys of pictures are turned by other angles than those of their place."""
        layers = self._config.layers
        if self.pictures is not None and any(x.rope and x.rope.sections for x in layers):
            return []
        return super()._find_key_biases()
