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
    ggml = open_library("ggml", folder)
    if ggml is None:
        return None
    ggml.ggml_backend_reg_count.restype = ctypes.c_size_t
    if ggml.ggml_backend_reg_count() == 0:
        ggml.ggml_backend_load_all_from_path(ctypes.c_char_p(os.fsencode(folder)))
    return ggml


def open_library(name: str, folder: Path) -> ctypes.CDLL | None:
    """Return the library that llama.cpp itself loads, such as "ggml"; None if there is none.

    A wheel has no links but copies, of which libllama loads the one that its version is part of:
    another would be a second instance with a state of its own.
    """
    patterns = (f"lib{name}.so.[0-9]", f"lib{name}.[0-9].dylib")
    versioned = [path for pattern in patterns for path in folder.glob(pattern)]
    plain = [folder / f"lib{name}.so", folder / f"lib{name}.dylib", folder / f"{name}.dll"]
    path = next((path for path in (*versioned, *plain) if path.exists()), None)
    return None if path is None else ctypes.CDLL(str(path))
