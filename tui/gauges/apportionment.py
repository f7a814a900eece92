"""Divides the cells of a bar among amounts."""

from __future__ import annotations

from collections.abc import Sequence


def apportion(amounts: Sequence[float], width: int) -> list[int]:
    """Return the cells of each amount, `width` in all; positive amounts get at least one if
    possible.

    Rounded by largest remainders. All are 0 if the amounts are.
    """
    total = sum(amounts)
    if total <= 0 or width <= 0:
        return [0] * len(amounts)
    ideal = [amount * width / total for amount in amounts]
    cells = [int(cell) for cell in ideal]
    order = sorted(range(len(amounts)), key=lambda i: cells[i] - ideal[i])
    for index in order[: width - sum(cells)]:
        cells[index] += 1
    for index, amount in enumerate(amounts):
        widest = max(range(len(cells)), key=cells.__getitem__)
        if amount > 0 and cells[index] == 0 and cells[widest] > 1:
            cells[index] = 1
            cells[widest] -= 1
    return cells
