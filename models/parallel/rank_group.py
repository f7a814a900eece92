"""The ranks that compute one model together, each with a part of every matrix."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import torch
from torch.distributed import (
    AllreduceOptions,
    BroadcastOptions,
    GatherOptions,
    ProcessGroup,
    ProcessGroupGloo,
    ReduceOp,
)
from torch.nn.functional import pad

from .share import share

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_TIMEOUT = timedelta(minutes=30)
"""A rank waits for others only within a step; if one ends, the group ends with it."""

_ENVIRONMENT = {
    # All ranks are on this machine.
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    # Not when a size or a recorded step first needs it.
    "NCCL_RUNTIME_CONNECT": "0",
    "NCCL_GRAPH_REGISTER": "0",
}


class RankGroup:
    """One rank of `count`; all of them call its collective operations in the same order.

    Tensors are those of the device that the group was connected with.
    """

    def __init__(self, rank: int, count: int) -> None:
        self.rank = rank
        self.count = count
        self._group: ProcessGroup | None = None

    def connect(self, store: Store, device: torch.device, *, in_turn: bool = False) -> None:
        """Meet the other ranks in `store`: by NCCL on a GPU, else by gloo.

        All connections are made here, so that afterwards a process may lose the right to connect;
        those that computing `in_turn` takes, too.
        """
        if sys.platform == "linux":
            os.environ.update(_ENVIRONMENT)
        if device.type == "cuda":
            from torch.distributed import ProcessGroupNCCL

            group: object = ProcessGroupNCCL(
                store, self.rank, self.count, ProcessGroupNCCL.Options()
            )
        else:
            group = ProcessGroupGloo(store, self.rank, self.count, _TIMEOUT)
        self._group = cast("ProcessGroup", group)  # which torch's stubs do not say
        trial = torch.zeros(1, self.count, device=device)
        self.broadcast(self.sum(trial))
        self.join_columns(trial[:, :1], self.count)
        if in_turn and self.rank != 1:
            self.receive(trial)
        if in_turn and self.rank:
            self.send(trial)

    def sum(self, rows: torch.Tensor) -> torch.Tensor:
        """The sum of what each rank has; may change `rows` in place."""
        rows = rows.contiguous()
        self._connected.allreduce([rows], AllreduceOptions()).wait()
        return rows

    def least(self, number: int, device: torch.device) -> int:
        """The least number of any rank."""
        options = AllreduceOptions()
        options.reduceOp = ReduceOp(ReduceOp.MIN)
        found = torch.tensor([number], device=device)
        self._connected.allreduce([found], options).wait()
        return int(found.item())

    def broadcast(self, values: torch.Tensor) -> None:
        """Replace `values` by those of the first rank."""
        self._connected.broadcast([values], BroadcastOptions()).wait()

    def send(self, rows: torch.Tensor) -> None:
        """Give `rows` to the next rank, which receives them; the first one follows the last."""
        self._connected.send([rows.contiguous()], (self.rank + 1) % self.count, 0).wait()

    def receive(self, rows: torch.Tensor) -> None:
        """Replace `rows` by those that the rank before sends."""
        self._connected.recv([rows], (self.rank - 1) % self.count, 0).wait()

    def join_columns(self, rows: torch.Tensor, total: int) -> torch.Tensor:
        """On the first rank, the columns of all, `total` of them; on others their own `rows`.

        Ranks have the same number of columns, or one less.
        """
        width = -(-total // self.count)
        own = pad(rows, (0, width - rows.shape[1])).contiguous()
        if self.rank:
            self._connected.gather([], [own], GatherOptions()).wait()
            return rows
        parts = [torch.empty_like(own) for _ in range(self.count)]
        self._connected.gather([parts], [own], GatherOptions()).wait()
        widths = (len(share(total, rank, self.count)) for rank in range(self.count))
        return torch.cat([part[:, :size] for part, size in zip(parts, widths, strict=True)], 1)

    @property
    def _connected(self) -> ProcessGroup:
        assert self._group is not None, "the ranks have not met yet"
        return self._group
