"""Work for a GPU, recorded once and started as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch


class Recording(Protocol):
    """What was recorded; `output` is at the same place after every `replay`."""

    @property
    def output(self) -> torch.Tensor:
        """What the work gives."""
        ...

    def replay(self) -> None:
        """Start the work again, with what its inputs hold now."""
        ...


class GraphRecorder:
    """Records on torch's current device; all recordings share the memory between their steps.

    What a recording gives is not between them: it keeps its memory for as long as the recording.
    """

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        # Always the same one: libraries of torch keep memory for each stream that they ever saw.
        self._side = torch.cuda.Stream()

    def record(self, work: Callable[[], torch.Tensor]) -> Recording:
        """Run `work` once, for what is made at first use, and record it.

        Raises `torch.OutOfMemoryError`.
        """
        self._side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self._side):
                work()
        finally:  # kernels share memory: whatever follows must not overtake what has begun
            torch.cuda.current_stream().wait_stream(self._side)
        graph = torch.cuda.CUDAGraph()
        # Another model's thread may be busy with the same GPU meanwhile.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            output = work()
        return _Graph(graph, output)


class _Graph:
    def __init__(self, graph: torch.cuda.CUDAGraph, output: torch.Tensor) -> None:
        self.output = output
        self._graph = graph

    def replay(self) -> None:
        self._graph.replay()
