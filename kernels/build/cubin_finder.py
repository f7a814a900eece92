"""Find the cubin of a kernel: prebuilt in the package, in a cache, or compiled now."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from .compiled_kernel import (
    CompiledKernel,
    KernelVariant,
    read_compiled_kernel,
    write_compiled_kernel,
)
from .cuda_compilers import Compiler, CubinCache, find_compiler
from .kernel_source import NO_DEFINES, digest, kernel_source

PREBUILT = Path(__file__).parents[1] / "cubins"
"""The folder of cubins that were compiled with the package; a checkout may have none."""

# A cubin runs on later minor versions of its major version, and the compiler emits about the same
# instructions for these.
_SAME_CODE = {"sm_87": "sm_86", "sm_88": "sm_86", "sm_89": "sm_86"}


def prebuilt_path(folder: Path, name: str, text: str, architecture: str) -> Path:
    """The file name of the compiled `text`; it differs for every text and architecture."""
    return folder / f"{Path(name).stem}-{architecture}-{digest(text, architecture)}.cubin"


class CubinFinder:
    """Finds cubins in `prebuilt`, then in the folder `cache`, and compiles missing ones.

    A cubin of any other source text is never used. Thread-safe.
    """

    def __init__(
        self,
        architecture: str,
        cache: Path,
        *,
        prebuilt: Path = PREBUILT,
        compiler: Callable[[], Compiler] = find_compiler,
    ) -> None:
        self.architecture = architecture
        self._cache_folder = cache
        self._prebuilt = prebuilt
        self._make_compiler = compiler
        self._lock = threading.Lock()
        self._cache: CubinCache | None = None

    def cubin(self, name: str, defines: Mapping[str, str] = NO_DEFINES) -> bytes:
        """The cubin of the file `name` in csrc after `defines`; raises `CompileFailed`."""
        text = kernel_source(name, defines)
        for architecture in self._architectures():
            path = prebuilt_path(self._prebuilt, name, text, architecture)
            if path.exists():
                return path.read_bytes()
        return self._compiled_cache().cubin(name, self.architecture, defines)

    def variant(self, variant: KernelVariant) -> CompiledKernel:
        """The compiled Triton kernel of `variant`; raises `CompileFailed`."""
        source = variant.source(self.architecture)
        for architecture in self._architectures():
            path = prebuilt_path(self._prebuilt, variant.name, source, architecture)
            found = read_compiled_kernel(path)
            if found is not None:
                return found
        text = f"{source}\0{_triton_version()}"
        path = prebuilt_path(self._cache_folder, variant.name, text, self.architecture)
        with self._lock:  # Triton does not promise that threads may compile concurrently
            found = read_compiled_kernel(path)
            if found is None:
                found = variant.compile(self.architecture)
                write_compiled_kernel(found, path)
        return found

    def _architectures(self) -> tuple[str, ...]:
        same = _SAME_CODE.get(self.architecture)
        return (self.architecture,) if same is None else (self.architecture, same)

    def _compiled_cache(self) -> CubinCache:
        # Most machines find every cubin in the package and never load a compiler.
        with self._lock:
            if self._cache is None:
                self._cache = CubinCache(self._cache_folder, self._make_compiler())
            return self._cache


def _triton_version() -> str:
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return ""
