"""Finds the folder of llama.cpp's shared libraries, and loads its compute backends."""

from __future__ import annotations

import ctypes
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


def load_backends(folder: Path) -> ctypes.CDLL | None:
    """Return ggml with its compute backends registered; None if the folder has no ggml.

    A build for many processors has them as modules, of which the best that runs here is loaded.
    """
    names = (folder / name for name in ("libggml.so", "libggml.dylib", "ggml.dll"))
    path = next((path for path in names if path.exists()), None)
    if path is None:
        return None
    ggml = ctypes.CDLL(str(path))
    ggml.ggml_backend_reg_count.restype = ctypes.c_size_t
    if ggml.ggml_backend_reg_count() == 0:
        ggml.ggml_backend_load_all_from_path(ctypes.c_char_p(os.fsencode(folder)))
    return ggml
