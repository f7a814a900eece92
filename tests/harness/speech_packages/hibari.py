"""Stands in for hibari: each sentence is as many tenths of a second as it has words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

SAMPLE_RATE = 24000


class Hibari:
    """Speaks at half the amplitude."""

    def __init__(self, **_: Any) -> None:
        pass

    def stream(self, text: str, *, speed: float, seed: int) -> Iterator[Any]:
        assert seed == 0
        for sentence in text.split("."):
            if sentence == "die":
                os._exit(1)
            if sentence == "read a file":
                Path("/etc/hostname").read_text()
            if sentence.strip():
                samples = int(len(sentence.split()) * SAMPLE_RATE / 10 / speed)
                yield np.full(samples, 0.5, np.float32)
