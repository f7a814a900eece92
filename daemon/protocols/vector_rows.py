"""Vectors of embeddings as parts of a JSON answer."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import msgspec

from ingle.backends.base.events import Embedded

_ROWS_A_TURN = 64


async def vector_rows(embedded: Embedded, *, as_base64: bool = False) -> list[Any]:
    """One value for each vector: encoded JSON, or base64 of float32 in little-endian order.

    Encoding a large answer in one piece would block the event loop, so it runs between rows.
    """
    size = embedded.dimensions * 4
    rows: list[Any] = []
    for start in range(0, len(embedded.vectors), size):
        row = embedded.vectors[start : start + size]
        numbers: Any = memoryview(row).cast("f").tolist()
        rows.append(
            b64encode(row).decode() if as_base64 else msgspec.Raw(msgspec.json.encode(numbers))
        )
        if len(rows) % _ROWS_A_TURN == 0:
            await asyncio.sleep(0)
    return rows
