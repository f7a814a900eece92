"""The `StateRunner` of our own engine: a transformer with recurrent layers among others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import torch

from ingle.models.errors import ModelError
from ingle.models.fit.paged_fit import state_drafts, state_rows, token_kv_bytes

from ..base.errors import LoadFailed
from ..base.load_spec import LoadSpec
from ..base.model_info import ModelInfo
from ..engine.batch import Batch
from ..engine.kv.state_cache import StateCache
from ..engine.kv_store.kv_store import KVStore
from .compute_backend import ComputeBackend
from .graphs.step_graphs import Record, Recording
from .graphs.step_shape import rounded_up
from .model_files import ModelSource, open_source
from .model_runner import CudaModelRunner
from .row_table import RowTable
from .state_pool import PagedStateContext, StatePool, StepStates

_LAYOUT = "states 1"
"""Changes whenever stored states become incompatible."""


class StateModelRunner(CudaModelRunner):
    """One model with recurrent layers on one device."""

    @property
    def state_key(self) -> str:
        """See `ModelRunner`."""
        return f"{super().state_key}, {_LAYOUT}"

    @property
    def state_bytes(self) -> int:
        """See `StateRunner`."""
        return self._model.whole.state_bytes

    @property
    def state_tokens(self) -> int:
        """See `StateRunner`."""
        config = self._model.whole if self._spec.stages else self._config
        return -(-self.state_bytes // token_kv_bytes(config, self._spec.kv_type))

    def open_cache(self, store: KVStore | None = None) -> StateCache:
        """The cache manager of pages and states; in-flight batches belong to none any more."""
        self._launched.clear()
        self.head.cache = cache = StateCache(self, store)
        return cache

    @torch.inference_mode()
    def launch(self, batch: Batch) -> None:
        """See `CudaModelRunner`."""
        self._step_states.lay_out(batch)
        super().launch(batch)

    @torch.inference_mode()
    def compute(self, batch: Batch) -> torch.Tensor:
        """Logits of all positions that sample; see `CudaModelRunner`."""
        self._step_states.lay_out(batch)
        return super().compute(batch)

    @torch.inference_mode()
    def copy_state(self, source: int, target: int) -> None:
        """See `StateRunner`."""
        self._pool_of_states.copy(source, target)

    @torch.inference_mode()
    def read_state(self, row: int) -> bytes:
        """See `StateRunner`."""
        return self._pool_of_states.read(row)

    @torch.inference_mode()
    def write_state(self, row: int, data: bytes | memoryview) -> bool:
        """See `StateRunner`."""
        return self._pool_of_states.write(row, data)

    def info(self) -> ModelInfo:
        """See `LocalRunner`; states count as a part of the KV cache."""
        info = super().info()
        states = self._pool_of_states.nbytes
        return msgspec.structs.replace(info, kv_bytes=info.kv_bytes + states)

    def drop_head(self) -> None:
        """See `CudaModelRunner`; there may be no room for two pools of states."""
        self._drop_states()
        super().drop_head()

    def close(self) -> None:
        """Free weights, pages, states and buffers."""
        self._drop_states()
        super().close()

    def _drop_states(self) -> None:
        del self._pool_of_states, self._step_states, self._table

    def _load(self, source: ModelSource, backend: ComputeBackend | None) -> None:
        super()._load(source, backend)
        if self._backend.record is not None:
            self._backend = replace(self._backend, record=self._recording(self._backend.record))

    def _make_room(self) -> None:
        spec = self._spec
        config = self._model.whole  # all ranks of a divided model have the same rows
        context = min(spec.context, config.context)
        self.num_states = state_rows(
            config, context=context, slots=spec.slots, kv_type=spec.kv_type
        )
        self.max_drafts = state_drafts(config)
        self._pool_of_states = StatePool(self._config, self.num_states, self._where.device)
        self._table = RowTable(
            sequences=rounded_up(spec.slots), writes=self.num_states, device=self._where.device
        )
        self._step_states = StepStates(self._pool_of_states, self._table)
        super()._make_room()

    def _recording(self, record: Record) -> Record:
        """Record without writing states: what is recorded is computed once before its replay."""

        def record_step(work: Callable[[], torch.Tensor]) -> Recording:
            with self._table.read_only():
                return record(work)

        return record_step

    def _make_pool(self, pages: int) -> None:
        super()._make_pool(pages)
        paged = self._context
        self._context = PagedStateContext(
            paged.config, paged.operations, paged.pool, paged.inputs, self._step_states
        )


def open_model_runner(
    spec: LoadSpec,
    on_progress: Callable[[float], None] | None = None,
    backend: ComputeBackend | None = None,
    source: ModelSource | None = None,
) -> CudaModelRunner:
    """The runner that the layers of `spec.path` need; see `CudaModelRunner`."""
    try:
        source = source or open_source(Path(spec.path))
    except ModelError as error:
        raise LoadFailed(error.message, hint=error.hint) from error
    kind = StateModelRunner if source.files.config.state_bytes else CudaModelRunner
    if spec.projector_path is not None and kind is CudaModelRunner:
        from .pictures.picture_model_runner import PictureModelRunner

        kind = PictureModelRunner
    return kind(spec, on_progress, backend, source)
