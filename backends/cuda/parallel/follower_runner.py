"""The runner of a rank other than the first: it repeats what that does, and samples nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from msgspec import structs

from ingle.models.parallel.rank_group import RankGroup

from ...base.load_spec import LoadSpec
from ...base.sampling_params import SamplingParams
from ...engine.batch import Batch, ScheduledChunk, StateStep
from ...engine.sequence import Sequence
from ..graphs.step_inputs import StepCopy
from ..model_files import ModelSource
from ..state_model_runner import StateModelRunner
from .messages import (
    CopyPage,
    CopyState,
    FollowStep,
    ForgetAdapter,
    LoadAdapter,
    LoadPart,
    PagesRead,
    PartReady,
    ReadPages,
    ReadState,
    RecordStep,
    ToFollower,
    WritePages,
    WriteState,
)
from .rank_runner import RankRunner, meet, open_part

_PARAMS = SamplingParams(seed=0)


class FollowerRunner(RankRunner):
    """Obeys the messages of the first rank, in their order."""

    def __init__(
        self,
        ranks: RankGroup,
        spec: LoadSpec,
        source: ModelSource,
        on_loaded: Callable[[], None],
    ) -> None:
        """`on_loaded` is called when the rank has its part."""
        self._on_loaded = on_loaded
        super().__init__(ranks, spec, None, source)
        self._steps.on_sent = lambda _: ranks.broadcast(self._inputs.token_ids)
        if spec.stages:
            self.adapters.elsewhere = None  # the first rank checks all layers

    def _make_room(self) -> None:
        self._on_loaded()
        super()._make_room()

    def launch(self, batch: Batch) -> None:
        """Compute a batch of the trials while the model is loaded."""
        self._logits = self.compute(batch)
        self._launched.append(self._where.mark())

    @property
    def ready(self) -> PartReady:
        """What this rank takes."""
        info, adapted = self.info(), self.adapters.sizes if self._spec.stages else {}
        return PartReady(
            info.weights_bytes, info.kv_bytes, info.compute_bytes, self._pool.token_bytes, adapted
        )

    @torch.inference_mode()
    def obey(self, message: ToFollower) -> PagesRead | None:
        """Do what the first rank does; the answer that it waits for, if any."""
        match message:
            case FollowStep():
                self._follow(message)
            case CopyPage(source, target, count):
                self.copy_page(source, target, count)
            case ReadPages(pages, count):
                return PagesRead(self.read_pages(pages, count))
            case WritePages(pages, count, data):
                self.write_pages(pages, count, data)
            case LoadAdapter(folder):
                self.adapter_number(Path(folder))
            case ForgetAdapter(folder):
                self.drop_adapter(Path(folder))
            case RecordStep():
                self.prepare_step()
            case ReadState(row):
                return PagesRead(self.read_state(row))
            case CopyState() | WriteState():
                self._change_state(message)
            case LoadPart():
                raise ValueError("a part is loaded already")
        return None

    def _follow(self, step: FollowStep) -> None:
        batch = Batch()
        for tokens, adapter in step.chunks:
            sequence = Sequence("", 0, [], _PARAMS, adapter=adapter)
            batch.chunks.append(ScheduledChunk(sequence, tokens, samples=False))
        batch.states = [StateStep(read, tuple(writes)) for read, writes in step.states]
        self._inputs.copy_in(StepCopy(step.shape, step.num_rows, step.long, step.ints))
        self._lay_out(batch)
        self._steps.repeat(batch)

    def _lay_out(self, batch: Batch) -> None:
        """Prepare the states of the batch; here there are none."""

    def read_state(self, row: int) -> bytes:
        """The rank's share of a state; here there is none."""
        raise TypeError(f"row {row} is for a model with states")

    def _change_state(self, message: CopyState | WriteState) -> None:
        raise TypeError(f"{message} is for a model with states")


class FollowerStateRunner(FollowerRunner, StateModelRunner):
    """The same with recurrent layers: states of all of them, or of those of a stage."""

    @property
    def ready(self) -> PartReady:
        """See `FollowerRunner`."""
        return structs.replace(super().ready, state_bytes=self._pool_of_states.row_bytes)

    def read_state(self, row: int) -> bytes:
        """The rank's share of a state."""
        return StateModelRunner.read_state(self, row)

    def _lay_out(self, batch: Batch) -> None:
        self._step_states.lay_out(batch)

    def _change_state(self, message: CopyState | WriteState) -> None:
        if isinstance(message, CopyState):
            self.copy_state(message.source, message.target)
        else:
            self.write_state(message.row, message.data)


def open_follower(load: LoadPart, on_loaded: Callable[[], None]) -> FollowerRunner:
    """The runner of a rank; raises `ModelError` or `LoadFailed`."""
    ranks = RankGroup(load.rank, load.count)
    meet(load.spec, ranks, load.meeting)
    source = open_part(load.spec, ranks)
    kind = FollowerStateRunner if source.files.config.state_bytes else FollowerRunner
    return kind(ranks, load.spec, source, on_loaded)
