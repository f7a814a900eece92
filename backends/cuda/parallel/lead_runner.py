"""The runner of a divided model: the first rank, which schedules and samples for all."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Numbers
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Lock

import msgspec
import torch

from ingle.models.errors import ModelError
from ingle.models.parallel.rank_group import RankGroup

from ...base.errors import LoadFailed
from ...base.load_spec import LoadSpec
from ...base.model_info import ModelInfo
from ...engine.batch import Batch
from ..model_files import ModelSource
from ..model_runner import CudaModelRunner
from ..state_model_runner import StateModelRunner
from .messages import (
    CopyPage,
    CopyState,
    FollowStep,
    ForgetAdapter,
    LoadAdapter,
    PagesRead,
    PartReady,
    ReadPages,
    ReadState,
    RecordStep,
    WritePages,
    WriteState,
)
from .rank_runner import RankRunner, meet, open_part
from .rank_team import RankTeam

_OWN_PART = 0.99
"""The fraction that is reported while other ranks still load."""


class LeadRunner(RankRunner):
    """Has each step, and each change of what steps depend on, repeated by the other ranks.

    Keys and values that it reads are those of all ranks: first its own of all tokens, then those of
    the next.
    """

    def __init__(
        self,
        team: RankTeam,
        ranks: RankGroup,
        spec: LoadSpec,
        on_progress: Callable[[float], None] | None,
        source: ModelSource,
    ) -> None:
        self._team = team
        self._adapting = Lock()
        self._progress: Callable[[float], None] = on_progress or (lambda _: None)
        super().__init__(ranks, spec, lambda part: self._progress(min(part, _OWN_PART)), source)
        self._others = [each for each in team.receive() if isinstance(each, PartReady)]
        self._steps.on_sent = self._announce
        self.adapters.elsewhere = {
            name: size for each in self._others for name, size in each.adapted.items()
        }

    def _make_room(self) -> None:
        self._team.receive()  # the others have their parts
        self._report = self._progress
        super()._make_room()

    @property
    def state_key(self) -> str:
        """See `ModelRunner`."""
        stages = "".join(f", {size} layers" for size in self._spec.stages)
        return f"{super().state_key}, {self._ranks.count} ranks{stages}"

    def launch(self, batch: Batch) -> None:
        """See `CudaModelRunner`."""
        with self._team.ending_together():
            super().launch(batch)

    def compute(self, batch: Batch) -> torch.Tensor:
        """See `CudaModelRunner`."""
        with self._team.ending_together():
            return super().compute(batch)

    def copy_page(self, source: int, target: int, count: int) -> None:
        """See `PagedRunner`."""
        self._team.send(CopyPage(source, target, count))
        super().copy_page(source, target, count)

    def read_pages(self, pages: Numbers[int], count: int) -> bytes:
        """See `PagedRunner`."""
        self._team.send(ReadPages(list(pages), count))
        return self._with_others(super().read_pages(pages, count))

    def _with_others(self, own: bytes) -> bytes:
        """What this rank read, and what the others answer."""
        others = (each.data for each in self._team.receive() if isinstance(each, PagesRead))
        return b"".join([own, *others])

    def write_pages(self, pages: Numbers[int], count: int, data: bytes | memoryview) -> bool:
        """See `PagedRunner`."""
        sizes = [self._pool.token_bytes, *(each.token_bytes for each in self._others)]
        tokens, rest = divmod(len(data), sum(sizes))
        if rest or tokens < count:
            return False
        parts = _parts_of(data, [tokens * size for size in sizes])
        self._team.send_each([WritePages(list(pages), count, part) for part in parts[1:]])
        return super().write_pages(pages, count, parts[0])

    def adapter_number(self, folder: Path) -> int:
        """See `ModelRunner`."""
        with self._adapting:  # all ranks count adapters in the same order
            number = super().adapter_number(folder)
            self._team.send(LoadAdapter(str(folder)))
            return number

    def drop_adapter(self, folder: Path) -> None:
        """See `ModelRunner`."""
        with self._adapting:
            super().drop_adapter(folder)
            self._team.send(ForgetAdapter(str(folder)))

    def prepare_step(self) -> bool:
        """See `ModelRunner`."""
        if self._steps.graphs is None:
            return False
        self._team.send(RecordStep())
        with self._team.ending_together():
            return super().prepare_step()

    def info(self) -> ModelInfo:
        """See `LocalRunner`; bytes are those of all ranks."""
        info, stages = super().info(), self._spec.stages
        device = f"{self._ranks.count} × {info.device}"
        if stages:
            device += f", by layers: {' + '.join(map(str, stages))}"
        layers = sum(stages) or info.layers
        return msgspec.structs.replace(
            info,
            device=device,
            layers=layers,
            layers_on_gpu=layers if info.layers_on_gpu else 0,
            weights_bytes=info.weights_bytes + sum(each.weights_bytes for each in self._others),
            kv_bytes=info.kv_bytes + sum(each.kv_bytes for each in self._others),
            compute_bytes=info.compute_bytes + sum(each.compute_bytes for each in self._others),
        )

    def close(self) -> None:
        """End the other ranks, and free weights, pages and buffers."""
        self._team.close()
        super().close()

    def _announce(self, batch: Batch) -> None:
        """Have the other ranks compute the batch whose inputs have been sent to the device."""
        chunks = [(chunk.num_tokens, chunk.sequence.adapter) for chunk in batch.chunks]
        states = [(each.read, list(each.writes)) for each in batch.states]
        self._team.send(FollowStep(*self._inputs.copy_out(), chunks, states))
        # Those that the step before drew are on this device only.
        self._ranks.broadcast(self._inputs.token_ids)


class LeadStateRunner(LeadRunner, StateModelRunner):
    """The same with recurrent layers: each rank has all states whole, or those of its stage.

    Of stages, states are read and written as pages are.
    """

    def copy_state(self, source: int, target: int) -> None:
        """See `StateRunner`."""
        self._team.send(CopyState(source, target))
        super().copy_state(source, target)

    def read_state(self, row: int) -> bytes:
        """See `StateRunner`."""
        if not self._spec.stages:
            return super().read_state(row)
        self._team.send(ReadState(row))
        return self._with_others(super().read_state(row))

    def write_state(self, row: int, data: bytes | memoryview) -> bool:
        """See `StateRunner`."""
        if not self._spec.stages:
            self._team.send(WriteState(row, bytes(data)))
            return super().write_state(row, data)
        if len(data) != self.state_bytes:
            return False
        sizes = [self._pool_of_states.row_bytes, *(each.state_bytes for each in self._others)]
        own, *others = _parts_of(data, sizes)
        self._team.send_each([WriteState(row, part) for part in others])
        return super().write_state(row, own)


def _parts_of(data: bytes | memoryview, sizes: Numbers[int]) -> list[bytes]:
    """Consecutive parts of these sizes."""
    ends = list(accumulate(sizes, initial=0))
    return [bytes(data[start:end]) for start, end in pairwise(ends)]


def open_divided(
    spec: LoadSpec, on_progress: Callable[[float], None] | None = None
) -> CudaModelRunner:
    """The runner of a model that `spec` divides among devices; raises `LoadFailed`."""
    count = spec.tensor_parallel
    if spec.device != "cpu" and torch.cuda.is_available() and torch.cuda.device_count() < count:
        raise LoadFailed(
            f"The model is to be divided among {count} GPUs, and there are "
            f"{torch.cuda.device_count()}.",
            hint="Load it with a smaller tensor_parallel.",
        )
    ranks = RankGroup(0, count)
    team = RankTeam(spec, count)
    try:
        with team.ending_together():
            meet(spec, ranks, team.meeting)
            source = open_part(spec, ranks)
            kind = LeadStateRunner if source.files.config.state_bytes else LeadRunner
            return kind(team, ranks, spec, on_progress, source)
    except BaseException as error:
        team.close()
        if isinstance(error, ModelError):
            raise LoadFailed(error.message, hint=error.hint) from error
        raise
