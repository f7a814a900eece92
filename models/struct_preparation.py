"""Types that several threads may decode at the same time.

msgspec 0.22 works out the fields of a class when it is first decoded, and ends the process if two
threads do so at once.
"""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_PREPARING = Lock()


def prepared(kind: T) -> T:
    """Return the type, once the fields of its classes are known."""
    _prepare(kind)
    return kind


@cache
def _prepare(kind: Any) -> None:
    with _PREPARING:
        msgspec.json.Decoder(kind)
