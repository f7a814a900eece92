"""Finds other programs that run models on this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

import psutil

from ingle.backends.hardware.machine import Gpu

from .system_state import OtherServer

_PROGRAMS = (
    ("ollama", "Ollama"),
    ("lm studio", "LM Studio"),
    ("lm-studio", "LM Studio"),
    ("lmstudio", "LM Studio"),
    ("llama-server", "llama-server"),
    ("llamafile", "llamafile"),
    ("koboldcpp", "koboldcpp"),
    ("vllm", "vLLM"),
    ("sglang", "SGLang"),
    ("jan", "Jan"),
)
"""Prefixes of their process names, in lower case."""
_NAME_ALONE = ("jan",)
"""Too short for a prefix: only the whole name counts."""

Process = tuple[int, str, int]
"""Process id, name, and memory in bytes."""


def find_neighbours(gpus: Iterable[Gpu], own: Collection[int]) -> list[OtherServer]:
    """Return those that run now, except the processes in `own`."""
    return group_neighbours(_processes(), gpus, own)


def group_neighbours(
    processes: Iterable[Process], gpus: Iterable[Gpu], own: Collection[int]
) -> list[OtherServer]:
    """Return one entry per program, with the memory of all its processes; the pid is the largest
    one's.
    """
    on_gpu: dict[int, int] = {}
    for process in (process for gpu in gpus for process in gpu.processes):
        on_gpu[process.pid] = on_gpu.get(process.pid, 0) + (process.memory or 0)
    found: dict[str, list[Process]] = {}
    for process in processes:
        pid, name, _ = process
        program = _program(name)
        if program is not None and pid not in own:
            found.setdefault(program, []).append(process)
    return [
        OtherServer(
            program=program,
            pid=max(group, key=lambda each: on_gpu.get(each[0], 0) + each[2])[0],
            memory=sum(memory for _, _, memory in group),
            gpu_memory=sum(on_gpu.get(pid, 0) for pid, _, _ in group) if on_gpu else None,
        )
        for program, group in found.items()
    ]


def _program(name: str) -> str | None:
    lowered = name.lower().removesuffix(".exe")
    for beginning, program in _PROGRAMS:
        if lowered == beginning or (beginning not in _NAME_ALONE and lowered.startswith(beginning)):
            return program
    return None


def _processes() -> Iterable[Process]:
    with suppress(OSError):  # a sandbox may hide other processes
        for process in psutil.process_iter():
            try:
                yield process.pid, process.name(), process.memory_info().rss
            except psutil.Error:  # it has ended, or belongs to another user
                continue
