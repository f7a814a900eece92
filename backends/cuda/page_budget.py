"""The number of pages of the KV pool."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ingle.models.fit.paged_fit import PAGE_SIZE
from ingle.models.parallel.rank_group import RankGroup

from ..base.errors import OutOfMemory
from .device import ComputeDevice

_RESERVE = 256 * 2**20
"""Bytes of a GPU's memory that are left to the driver, to other programs and to fragments."""


class PageBudget:
    """The wanted number of pages, and on a GPU the number that fits, by measurement."""

    def __init__(
        self, where: ComputeDevice, *, context: int, slots: int, ranks: RankGroup | None = None
    ) -> None:
        """All `ranks` of a divided model get as many pages."""
        self._where = where
        self._ranks = ranks
        self._context = context
        self._slots = slots

    def wanted(self, capacity: int) -> int:
        """Pages for `capacity` tokens, or for one whole context where that is more.

        Each slot has one page more, so that what ends within a page does not shorten the others.
        """
        return -(-max(capacity, self._context) // PAGE_SIZE) + self._slots

    def for_trial(self, tokens: int) -> int:
        """Pages for a step of so many tokens, however many sequences they belong to."""
        return -(-tokens // PAGE_SIZE) + self._slots

    def measure(self, step: Callable[[], None]) -> int:
        """Bytes of a GPU that a step takes beside what stays."""
        device = self._where.device
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        step()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before

    def fitting(self, wanted: int, page_bytes: int, workspace: int) -> int:
        """As many of the pages as are free beside the workspace; raises `OutOfMemory`."""
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(self._where.device)
        room = free - workspace - _RESERVE
        if self._ranks is not None:
            room = self._ranks.least(room // page_bytes, self._where.device) * page_bytes
        pages = min(wanted, room // page_bytes)
        if pages * PAGE_SIZE < self._context:
            raise OutOfMemory(
                f"There is no memory on {self._where.name} for a context of {self._context} "
                f"tokens: it needs {self._context * page_bytes // PAGE_SIZE / 1e9:.1f} GB, and "
                f"{max(room, 0) / 1e9:.1f} GB are free.",
                hint="Load the model with a smaller context, or unload another model.",
            )
        return pages
