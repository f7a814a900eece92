"""Finds the folder of llama.cpp's shared libraries, without loading them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..base.child_process import find_module


def library_folder(import_path: Sequence[str] = ()) -> Path | None:
    """Return the folder from which a child with this `import_path` loads llama.cpp; None if it
    cannot.

    As llama-cpp-python finds it: `LLAMA_CPP_LIB_PATH`, else its own folder `lib`.
    """
    found = find_module("llama_cpp", import_path)
    if found is None or found.origin is None:
        return None
    named = os.environ.get("LLAMA_CPP_LIB_PATH")
    folder = Path(named) if named else Path(found.origin).parent / "lib"
    return folder if any(folder.glob("*llama.*")) else None
