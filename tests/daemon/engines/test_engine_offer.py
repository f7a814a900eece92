"""Which engine is offered on recorded machines, and with what question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingle.backends.hardware.machine import Gpu
from ingle.backends.packages.engine_packages import all_engine_packages
from ingle.daemon.doctor.diagnose import diagnose
from ingle.daemon.doctor.system_state import SystemState
from ingle.daemon.engines.engine_offer import (
    choose_offer,
    describe_gpus,
    why_limited,
    why_useless,
)

SAME_MEMORY = "Prompts are processed faster with it, but answers are not: the memory is the same."
FETCH = "Fetch the engine for it (2.7 GB)?"
VULKAN = "Build llama.cpp for GPUs with Vulkan (77 MB to download, then some minutes of compiling)?"
RECORDED = {
    "amd-igpu": None,
    "arc-b580": f"This machine has an Intel Arc B580 with 12 GB. {VULKAN}",
    "gtx-1080": f"This machine has a GTX 1080 with 8 GB. {VULKAN}",
    "h200": f"This machine has an H200 with 140 GB. {FETCH}",
    "m2-air": None,
    "m3-max": None,
    "raspberry-pi-5": None,
    "rtx-3060-laptop": None,  # its driver is too old
    "rtx-4090-game": f"This machine has an RTX 4090 with 24 GB. {FETCH}",
    "rtx-4090-laptop": f"This machine has an RTX 4090 with 16 GB. {FETCH}",
    "rtx-5090": f"This machine has an RTX 5090 with 32 GB. {FETCH}",
    "rx-7900-xtx": f"This machine has an AMD Radeon RX 7900 XTX with 24 GB. {VULKAN}",
    "server-without-gpu": None,
    "small-container": None,  # its driver does not answer
    "two-3090": f"This machine has two RTX 3090 with 24 GB each. {FETCH}",
    "windows": None,  # the index has no build for CUDA
    "wsl2": None,  # its driver is too old
}


def nvidia(name: str, capability: tuple[int, int], memory: int, cuda: str = "13.0") -> Gpu:
    return Gpu(
        name=name,
        vendor="nvidia",
        driver="580.82",
        cuda=cuda,
        memory_total=memory << 30,
        compute_capability=capability,
    )


LAPTOP = nvidia("NVIDIA GeForce RTX 4090 Laptop GPU", (8, 9), 16)
INTEGRATED = Gpu(name="AMD Radeon 610M", vendor="amd", unified=True, memory_total=1 << 30)
RADEON = Gpu(name="AMD Radeon RX 7900 XTX (RADV NAVI31)", vendor="amd", memory_total=24 << 30)
ARC = Gpu(name="Intel(R) Arc(tm) B580 Graphics (BMG G21)", vendor="intel", memory_total=12 << 30)
MAC = Gpu(name="Apple M2", vendor="apple", unified=True, memory_total=16 << 30)
TURING = nvidia("NVIDIA GeForce RTX 2080 Ti", (7, 5), 11)
OLD_DRIVER = nvidia("NVIDIA GeForce RTX 4070", (8, 9), 12, cuda="12.8")


def test_every_recorded_machine_has_its_offer(machines: dict[str, bytes]) -> None:
    offers: dict[str, str | None] = {}
    for name, text in machines.items():
        machine = msgspec.toml.decode(text, type=SystemState).machine
        software = machine.software
        offer = choose_offer(
            machine.gpus, software.tools, (), has_index=False, system=software.system
        )
        offers[name] = None if offer is None else offer.question
    assert offers == RECORDED


def test_page_shows_what_the_first_run_asks() -> None:
    page = (Path(__file__).parents[3] / "docs/engines.md").read_text()
    for name in ("rtx-4090-laptop", "h200", "two-3090", "rx-7900-xtx", "arc-b580"):
        assert f"  {RECORDED[name]} [Y/n]\n" in page, name


@pytest.mark.parametrize(
    ("gpus", "tools", "name"),
    [
        ([nvidia("NVIDIA H200", (9, 0), 140)], [], "cuda"),
        ([LAPTOP, INTEGRATED], [], "cuda"),
        ([RADEON], [], None),
        ([RADEON], ["glslc"], "llama.cpp-vulkan"),
        ([ARC], ["glslc"], "llama.cpp-vulkan"),
        ([TURING], [], None),
        ([TURING], ["nvcc", "glslc"], "llama.cpp-cuda"),
        ([OLD_DRIVER], [], None),
        ([INTEGRATED], ["glslc"], None),
        ([], ["nvcc", "glslc"], None),
    ],
)
def test_offer_needs_what_would_build_it(gpus: list[Gpu], tools: list[str], name: Any) -> None:
    offer = choose_offer(gpus, tools, (), has_index=False)
    assert (offer and offer.name) == name


def test_index_replaces_the_build_tools() -> None:
    offer = choose_offer([RADEON], [], (), has_index=True)
    assert offer is not None
    assert offer.name == "llama.cpp-vulkan"
    windows = choose_offer([LAPTOP], [], (), has_index=True, system="Windows")
    assert windows is not None
    assert windows.name == "cuda"


def test_nothing_is_offered_beside_the_best() -> None:
    assert choose_offer([LAPTOP], ["nvcc"], ["cuda"], has_index=True) is None
    assert choose_offer([TURING], ["nvcc", "glslc"], ["llama.cpp-cuda"], has_index=True) is None


@pytest.mark.parametrize(
    ("gpu", "reason"),
    [
        (TURING, "older than the RTX 30 series"),
        (OLD_DRIVER, "driver 580.82 is too old: it needs 580 or newer"),
        (Gpu(name="RTX 4090", vendor="nvidia"), "driver does not answer"),
        (RADEON, "There is no NVIDIA GPU."),
    ],
)
def test_reason_against_the_own_engine(gpu: Gpu, reason: str) -> None:
    assert reason in why_useless(all_engine_packages()["cuda"], [gpu])


@pytest.mark.parametrize(
    ("gpus", "useless", "limited"),
    [
        ([], "There is no GPU.", ""),
        ([MAC], "`llama.cpp` already uses a Mac's GPU, with Metal.", ""),
        ([INTEGRATED], "", SAME_MEMORY),
        ([INTEGRATED, RADEON], "", ""),
        ([TURING], "", ""),
    ],
)
def test_use_of_vulkan(gpus: list[Gpu], useless: str, limited: str) -> None:
    packages = all_engine_packages()["llama.cpp-vulkan"]
    assert why_useless(packages, gpus) == useless
    assert why_limited(packages, gpus) == limited


def test_doctor_says_the_same_of_an_integrated_gpu(machines: dict[str, bytes]) -> None:
    state = msgspec.toml.decode(machines["amd-igpu"], type=SystemState)
    findings = diagnose(state).findings
    assert [each.why for each in findings if each.code == "llama-cpu-only"] == [SAME_MEMORY]


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        ([LAPTOP, INTEGRATED], "an RTX 4090 with 16 GB"),
        ([RADEON], "an AMD Radeon RX 7900 XTX with 24 GB"),
        ([ARC], "an Intel Arc B580 with 12 GB"),
        ([nvidia("NVIDIA H200", (9, 0), 140)] * 8, "8 H200 with 140 GB each"),
        ([Gpu(name="Tesla T4", vendor="nvidia")], "a Tesla T4"),
        ([Gpu(name="", vendor="other")], "a GPU"),
    ],
)
def test_gpus_are_described_in_words(gpus: list[Gpu], text: str) -> None:
    assert describe_gpus(gpus) == text
