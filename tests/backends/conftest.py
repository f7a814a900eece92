"""Backends to test with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from ingle.backends.base import EngineKind, LoadSpec

# Read when llama.cpp's OpenMP is loaded; without it two decoding processes slow each other tenfold.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

MakeSpec = Callable[..., LoadSpec]


@pytest.fixture
def scripted_spec() -> MakeSpec:
    """Makes load specifications of scripted models; keywords are the fields of `Script`."""

    def make(*, context: int = 512, slots: int = 8, **script: object) -> LoadSpec:
        return LoadSpec(
            engine=EngineKind.SCRIPTED,
            path="scripted",
            context=context,
            slots=slots,
            script=json.dumps(script),
        )

    return make
