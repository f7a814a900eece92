"""A driver that checks every launch against the cubin of its kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_harness.launch_check import KernelFacts, check_launch, kernel_facts

from ingle.kernels.launch.cuda_driver import Argument, CudaDriver, CudaModule, Grid


def fake_image(name: str, cubin: bytes) -> bytes:
    """What the fake driver loads in place of a cubin: its name, its kernels, and the cubin."""
    lines = [name, *kernel_facts(cubin)]
    return b"=%b\0%b" % ("".join(f"{line}\n" for line in lines).encode(), cubin)


class CheckedDriver(CudaDriver):
    """Raises `LaunchFailed` for launches that do not fit their cubin; loads `fake_image`s only.

    `facts` are those of the kernels of each loaded name; `launches` counts them by kernel.
    """

    def __init__(self, device: int, library: Path) -> None:
        super().__init__(device, library)
        self.facts: dict[str, Mapping[str, KernelFacts]] = {}
        self.launches = Counter[str]()

    def load(self, cubin: bytes) -> CudaModule:
        """See `CudaDriver`."""
        text, _, code = cubin.partition(b"\0")
        facts = kernel_facts(code)
        self.facts[text.decode().removeprefix("=").split("\n")[0]] = facts
        return _CheckedModule(super().load(cubin), self, facts)


class _CheckedModule(CudaModule):
    def __init__(
        self, module: CudaModule, driver: CheckedDriver, facts: Mapping[str, KernelFacts]
    ) -> None:
        self._module = module
        self._checked = driver
        self._facts = facts
        self._on = driver.architecture

    def prepare(self) -> Sequence[str]:
        return self._module.prepare()

    def launch(
        self,
        kernel: str,
        grid: Grid,
        block: Grid,
        arguments: Sequence[Argument],
        *,
        shared_bytes: int = 0,
        stream: int = 0,
        overlap: bool = False,
    ) -> None:
        check_launch(self._facts[kernel], self._on, block, arguments, shared_bytes)
        self._checked.launches[kernel] += 1
        self._module.launch(
            kernel,
            grid,
            block,
            arguments,
            shared_bytes=shared_bytes,
            stream=stream,
            overlap=overlap,
        )
