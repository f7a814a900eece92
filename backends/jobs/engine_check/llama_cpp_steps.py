"""The steps of checking llama.cpp."""

from __future__ import annotations

from collections.abc import Iterator

from ...hardware.llama_cpp_library import library_folder
from ...hardware.probe_child import llama_build
from .check_step import Step, StepFailed

_REMEDY = (
    "Install it again: `ingle engine remove llama.cpp`, then `ingle engine install llama.cpp`."
)


def llama_cpp_steps() -> Iterator[Step]:
    """Yield the steps: the library is loaded, and its devices are listed."""
    yield "library", _load
    yield "devices", _list_devices


def _load() -> str:
    if library_folder() is None:
        raise StepFailed("llama.cpp is not installed", "Run `ingle engine install llama.cpp`.")
    build = llama_build()
    assert build is not None
    if build.error:
        raise StepFailed(build.error, _REMEDY)
    return f"llama-cpp-python {build.version}"


def _list_devices() -> str:
    build = llama_build()
    assert build is not None
    return " and ".join(build.backends)
