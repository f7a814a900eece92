"""Detection of other model servers and their memory."""

from __future__ import annotations

from ingle.backends.hardware.machine import Gpu, GpuProcess
from ingle.daemon.doctor.read_system_state import find_neighbours, group_neighbours
from ingle.daemon.doctor.system_state import OtherServer

PROCESSES = [
    (10, "ollama", 90),
    (11, "ollama_llama_server", 700),
    (12, "LM Studio.exe", 500),
    (13, "janitor", 5),
    (14, "Jan", 6),
    (15, "llama-server", 7),
    (16, "python", 8),
]


def test_processes_of_one_program_are_grouped() -> None:
    gpus = [
        Gpu(name="a", vendor="nvidia", processes=[GpuProcess(pid=11, name="x", memory=4000)]),
        Gpu(name="b", vendor="nvidia", processes=[GpuProcess(pid=11, memory=1000)]),
    ]
    assert group_neighbours(PROCESSES, gpus, own=[15]) == [
        OtherServer(program="Ollama", pid=11, memory=790, gpu_memory=5000),
        OtherServer(program="LM Studio", pid=12, memory=500, gpu_memory=0),
        OtherServer(program="Jan", pid=14, memory=6, gpu_memory=0),
    ]


def test_gpu_memory_is_unknown_without_a_driver() -> None:
    (neighbour,) = group_neighbours([(15, "llama-server", 7)], [], own=[])
    assert neighbour == OtherServer(program="llama-server", pid=15, memory=7, gpu_memory=None)


def test_finds_neighbours_on_this_machine() -> None:
    assert all(neighbour.pid > 0 for neighbour in find_neighbours([], []))
