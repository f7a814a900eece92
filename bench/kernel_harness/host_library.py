"""A `KernelLibrary` whose kernels run on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kernel_harness.host_build import HostModule, build_host_library

from ingle.kernels.build.kernel_source import NO_DEFINES
from ingle.kernels.launch.cuda_driver import Argument, Grid

_NOTHING: Mapping[str, Mapping[str, str]] = MappingProxyType({})


class CPUKernelLibrary:
    """Compiles sources with g++ on first use, and caches them in `folder`.

    `seed` shuffles the order in which threads run, unless it is 0. `defines` has the macros of
    sources that need some. `num_sms` is the number of SMs that wrappers see.
    """

    architecture = "host"

    def __init__(
        self,
        folder: Path,
        *,
        seed: int = 0,
        num_sms: int = 132,
        defines: Mapping[str, Mapping[str, str]] = _NOTHING,
    ) -> None:
        self.num_sms = num_sms
        self._folder = folder
        self._seed = seed
        self._defines = defines
        self._modules: dict[str, HostModule] = {}

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        overlap: bool = True,
    ) -> None:
        """See `KernelLibrary`; the kernel has ended when this returns."""
        module = self._modules.get(source)
        if module is None:
            defines = self._defines.get(source, NO_DEFINES)
            built = build_host_library(source, self._folder, defines=defines)
            module = self._modules[source] = HostModule(built, seed=self._seed)
        module.launch(kernel, grid, block, arguments, shared_bytes=shared_bytes, overlap=overlap)
