"""Which engine a machine would profit from: decided from its GPUs, driver and build tools."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from ingle.backends.cuda.kernel_coverage import OLDEST_GPU
from ingle.backends.hardware.machine import Gpu
from ingle.backends.packages.engine_packages import SPEECH, EnginePackages, all_engine_packages

from ..client.engine_types import EngineOffer

CUDA_MAJOR = 13
"""The CUDA version of the pinned PyTorch: a driver runs builds for its own major version."""
_OLDEST_DRIVER = "580"
_READ_OUT = "AEFHILMNORSX"
"""Letters whose names begin with a vowel."""


def why_useless(packages: EnginePackages, gpus: Sequence[Gpu], *, system: str = "Linux") -> str:
    """Return why the packages would change nothing on a machine with these GPUs, as a sentence.

    "" if they would.
    """
    nvidia = [gpu for gpu in gpus if gpu.vendor == "nvidia"]
    if packages.name == "cuda":
        return _why_not_cuda(nvidia, system)
    if packages.name == "llama.cpp-cuda":
        answering = any(gpu.compute_capability is not None for gpu in nvidia)
        return "" if answering else "There is no NVIDIA GPU whose driver answers."
    if packages.name == "llama.cpp-vulkan":
        if not gpus:
            return "There is no GPU."
        mac = all(gpu.vendor == "apple" for gpu in gpus)
        return "`llama.cpp` already uses a Mac's GPU, with Metal." if mac else ""
    return ""


def why_limited(packages: EnginePackages, gpus: Sequence[Gpu]) -> str:
    """Return what the packages do not improve on a machine with these GPUs, as a sentence.

    "" if nothing. They are not offered then, only named. A GPU with memory of its own, or a Mac's,
    decodes faster than the processor; other integrated ones share its memory and do not.
    """
    shared = all(gpu.unified and gpu.vendor != "apple" for gpu in gpus)
    if packages.name != "llama.cpp-vulkan" or not gpus or not shared:
        return ""
    return "Prompts are processed faster with it, but answers are not: the memory is the same."


def choose_offer(
    gpus: Sequence[Gpu],
    tools: Collection[str],
    ready: Collection[str],
    *,
    has_index: bool,
    system: str = "Linux",
) -> EngineOffer | None:
    """Return the packages to offer, None if what is there already is the best for the machine.

    `tools` are the build tools on the path, `ready` the names of installed packages. With
    `has_index` an index may have wheels of what would otherwise be compiled.
    """
    for packages in all_engine_packages().values():
        useless = why_useless(packages, gpus, system="" if has_index else system)
        asked_for = packages.unasked or packages.engine == SPEECH
        if asked_for or useless or why_limited(packages, gpus):
            continue
        if packages.name in ready:
            return None
        if packages.build and packages.tool not in tools and not has_index:
            continue
        return EngineOffer(
            name=packages.name,
            question=f"This machine has {describe_gpus(gpus)}. {_request(packages)}",
            download_bytes=packages.download_bytes,
        )
    return None


def describe_gpus(gpus: Sequence[Gpu]) -> str:
    """Return the GPUs as a noun phrase, such as "an RTX 4090 with 24 GB"."""
    own = [gpu for gpu in gpus if not gpu.unified] or list(gpus)
    first = own[0]
    name = re.sub(r"(?i)\((R|TM)\)| \([^()]*\)$", "", first.name)
    name = re.sub(r"^(NVIDIA )?(GeForce )?|( Laptop)? GPU$| Graphics$", "", name).strip() or "GPU"
    memory = f" with {round(first.memory_total / 2**30)} GB" if first.memory_total else ""
    same = sum(gpu.name == first.name for gpu in own)
    if same > 1:
        number = {2: "two", 3: "three", 4: "four"}.get(same, str(same))
        return f"{number} {name}{memory}{' each' if memory else ''}"
    read_out = name[:2].isupper() or name[1:2].isdigit()
    article = "an" if name[:1] in (_READ_OUT if read_out else "AEIOU") else "a"
    return f"{article} {name}{memory}"


def _why_not_cuda(nvidia: Sequence[Gpu], system: str) -> str:
    if not nvidia:
        return "There is no NVIDIA GPU."
    if system == "Windows":
        return "PyPI's PyTorch for Windows has no CUDA: install it from other wheels (--from)."
    gpu = nvidia[0]
    if gpu.compute_capability is None:
        return (
            f"NVIDIA's driver does not answer for the {gpu.name}; `ingle doctor` says what to do."
        )
    if gpu.compute_capability < OLDEST_GPU:
        return f"The {gpu.name} is older than the RTX 30 series, with which its kernels begin."
    major = gpu.cuda.partition(".")[0]
    if major.isdecimal() and int(major) < CUDA_MAJOR:
        return (
            f"NVIDIA's driver {gpu.driver} is too old: it needs {_OLDEST_DRIVER} or newer. "
            "`ingle doctor` says how to install one."
        )
    return ""


def _request(packages: EnginePackages) -> str:
    size = packages.download_bytes
    text = f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"
    if packages.build:
        return f"Build {packages.title} ({text} to download, then some minutes of compiling)?"
    return f"Fetch the engine for it ({text})?"
