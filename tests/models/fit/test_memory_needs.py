"""`MemoryNeeds`: arithmetic of memory on GPU and machine."""

from __future__ import annotations

from ingle.models.fit.memory_needs import MemoryNeeds


def test_gpu_and_machine_memory_are_separate() -> None:
    needs = MemoryNeeds(3, 5)
    assert needs + MemoryNeeds(1, 2) == MemoryNeeds(4, 7)
    assert needs - MemoryNeeds(4, 1) == MemoryNeeds(-1, 4)
    assert needs.total == 8
    assert needs.fits_in(MemoryNeeds(3, 5))
    assert not needs.fits_in(MemoryNeeds(9, 4))
    assert not needs.fits_in(MemoryNeeds(2, 9))


def test_unneeded_memory_may_be_missing() -> None:
    assert MemoryNeeds(3).fits_in(MemoryNeeds(3, -7))
    assert MemoryNeeds(0, 2).fits_in(MemoryNeeds(-1, 2))
    assert not MemoryNeeds()
    assert MemoryNeeds(0, 1)
