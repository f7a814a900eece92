"""What the runners of all ranks have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch._C._distributed_c10d import FileStore

from ingle.models.fit.paged_fit import RECORDING_BYTES
from ingle.models.layers.parameters import RankPart
from ingle.models.parallel.divisible import check_divisible
from ingle.models.parallel.layer_stages import (
    LayerStage,
    StageWeights,
    stage_config,
    stage_ranges,
)
from ingle.models.parallel.model_shard import NF4_BLOCKS, PLAIN_BLOCKS, ModelShard
from ingle.models.parallel.rank_group import RankGroup
from ingle.models.parallel.sharded_weights import ShardedWeights, blocks_of

from ...base.load_spec import LoadSpec
from ...confinement.access_policy import has_gpu_device
from ...confinement.seccomp_filter import filter_calls
from ..compute_backend import ComputeBackend
from ..graphs.step_graphs import Record
from ..model_files import ModelFiles, ModelSource, open_source
from ..model_runner import CudaModelRunner

_RECORDED_BYTES = RECORDING_BYTES // 64
"""What a recording counts for, whatever the driver took: all ranks record the same steps."""


class RankRunner(CudaModelRunner):
    """A rank's part of a model, computed in step with the others."""

    def __init__(
        self,
        ranks: RankGroup,
        spec: LoadSpec,
        on_progress: Callable[[float], None] | None,
        source: ModelSource,
    ) -> None:
        """Load `source`, which is the rank's part; the `ranks` are connected."""
        self._ranks = ranks
        super().__init__(spec, on_progress, source=source)

    def _load(self, source: ModelSource, backend: ComputeBackend | None) -> None:
        if self._where.device.type == "cpu":  # the ranks share its cores
            torch.set_num_threads(max(1, torch.get_num_threads() // self._ranks.count))
        super()._load(source, backend)
        record = self._backend.record
        if record is not None:
            self._backend = replace(self._backend, record=_evenly(record))


def meet(spec: LoadSpec, ranks: RankGroup, meeting: str) -> None:
    """Connect to the other ranks, which look into the file `meeting`.

    This comes before anything of the model is read: afterwards a confined process has no network.
    """
    on_gpu = spec.device != "cpu" and torch.cuda.is_available()
    device = torch.device("cuda", 0) if on_gpu else torch.device("cpu")
    ranks.connect(FileStore(meeting, ranks.count), device, in_turn=bool(spec.stages))
    if not spec.confine:
        return
    gpu = has_gpu_device() and spec.device != "cpu"
    if not filter_calls(drives_gpu=gpu, is_connected=True):
        print("This kernel filters no system calls: the network is open.", file=sys.stderr)


def open_part(spec: LoadSpec, ranks: RankGroup) -> ModelSource:
    """A rank's part of a model; raises `ModelError` for one that cannot be divided."""
    source = open_source(Path(spec.path))
    files = source.files
    if spec.stages:
        return replace(source, files=_staged(files, spec.stages, ranks))
    check_divisible(files.config, ranks.count)
    least = NF4_BLOCKS if spec.quantize == "nf4" else PLAIN_BLOCKS
    shard = ModelShard(files.config, ranks, least.joined(blocks_of(files.weights)))
    weights = ShardedWeights(files.weights, shard)
    part = replace(
        files, config=shard.config, weights=weights, part=RankPart(shard, ranks), head=None
    )
    return replace(source, files=part)


def _staged(files: ModelFiles, sizes: tuple[int, ...], ranks: RankGroup) -> ModelFiles:
    stage = LayerStage(stage_ranges(sizes)[ranks.rank], files.config, ranks)
    config, weights = stage_config(files.config, stage.layers), StageWeights(files.weights, stage)
    return replace(files, config=config, weights=weights, stage=stage, head=None)


def _evenly(record: Record) -> Record:
    return lambda work: record(work)._replace(nbytes=_RECORDED_BYTES)
