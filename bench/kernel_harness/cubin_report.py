"""Registers, memory and instructions of a cubin's kernels, without running them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ingle.kernels.errors import KernelError

_SECTION = re.compile(r"\s*\.section\s+\.text\.(\S+?),")
_LABEL = re.compile(r"\s*(\.L\w+):")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][A-Z0-9_.]*)(.*?);")
_USAGE = re.compile(
    r"Function (\S+):\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", re.MULTILINE
)
_WAIT = "ACQBULK"  # griddepcontrol.wait
# Multiplications of one instruction in a thread, or in a lane of a warp.
_PRODUCTS = {"IDP.4A": 4, "IDP.2A": 2, "HMMA.16816": 64}


@dataclass(frozen=True)
class KernelReport:
    """One kernel of a cubin: the count of each opcode, in all and in its busiest `loop`.

    `stack` is not 0 if registers were spilled; `shared` is static shared memory in bytes; `loops`
    are all loops, inner ones first; `early` are the instructions before the wait for the previous
    kernel.
    """

    registers: int
    stack: int
    shared: int
    opcodes: Counter[str]
    loop: Counter[str]
    loops: Sequence[Counter[str]]
    early: Counter[str]

    @property
    def instructions(self) -> int:
        """Instructions of the whole kernel."""
        return self.opcodes.total()

    @property
    def loop_instructions(self) -> int:
        """Instructions of one iteration of the loop."""
        return self.loop.total()

    def weights(self, columns: int, products: int = 1) -> float:
        """Weights of a lane in an iteration, if each takes `products` and serves `columns`."""
        count = sum(
            each * number
            for opcode, number in self.loop.items()
            for name, each in _PRODUCTS.items()
            if opcode.startswith(name)
        )
        return count / columns / products

    def matrix_instructions(self, products: int) -> int:
        """Instructions for an iteration of the loop that copies to shared memory.

        It makes `products`; if an inner loop does, its iterations are counted as often as needed.
        """
        found = [loop for loop in self.loops if _matrices(loop)]
        if not found:
            return 0
        most = max(map(_matrices, found))
        whole = [loop for loop in found if _matrices(loop) == most]
        inner = min(whole, key=_size)
        copying = (loop for loop in whole if any(name.startswith("LDGSTS") for name in loop))
        outer = min(copying, key=_size)
        return outer.total() + (products // most - 1) * inner.total()


def cubin_report(cubin: bytes) -> dict[str, KernelReport]:
    """The report of each kernel by name; raises `KernelError` without CUDA's disassembler."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = _run("cuobjdump", "-res-usage", file.name)
        listing = _run("nvdisasm", "-c", file.name)
    code = _functions(listing)
    return {
        name: KernelReport(
            int(registers), int(stack) + int(local), int(shared), *_loops(code[name])
        )
        for name, registers, stack, shared, local in _USAGE.findall(usage)
    }


def _functions(listing: str) -> dict[str, list[str]]:
    functions: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in listing.splitlines():
        match = _SECTION.match(line)
        if match:
            lines = functions[match[1]] = []
        lines.append(line)
    return functions


Loops = tuple[Counter[str], Counter[str], list[Counter[str]], Counter[str]]


def _loops(lines: Sequence[str]) -> Loops:
    """All instructions, those of the loop with most products, of all loops, before the wait.

    A loop is the range between a backward branch and its target.
    """
    opcodes: list[str] = []
    labels: dict[str, int] = {}
    loops: list[Counter[str]] = []
    for line in lines:
        if match := _LABEL.match(line):
            labels[match[1]] = len(opcodes)
        elif (match := _INSTRUCTION.search(line)) and match[1] != "NOP":
            opcodes.append(match[1])
            target = re.search(r"(\.L\w+)", match[2])
            if match[1].startswith("BRA") and target and target[1] in labels:
                loops.append(Counter(opcodes[labels[target[1]] :]))
    early = opcodes[: opcodes.index(_WAIT)] if _WAIT in opcodes else []
    busiest = max(loops, key=_products, default=Counter[str]())
    return Counter(opcodes), busiest, loops, Counter(early)


def _products(loop: Counter[str]) -> tuple[int, int]:
    return sum(loop[name] for name in loop if name.startswith(tuple(_PRODUCTS))), loop.total()


def _size(loop: Counter[str]) -> int:
    return loop.total()


def _matrices(loop: Counter[str]) -> int:
    return sum(loop[name] for name in loop if name.startswith("IMMA"))


def _run(tool: str, *arguments: str) -> str:
    done = subprocess.run([_tool(tool), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise KernelError(f"{tool} failed: {done.stderr.strip()}")
    return done.stdout


def _tool(name: str) -> str:
    """The path of a tool of the CUDA toolkit, or of the copy in Triton's package."""
    triton = importlib.util.find_spec("triton")
    places = list(triton.submodule_search_locations or ()) if triton else []
    for place in places:
        path = Path(place) / "backends" / "nvidia" / "bin" / name
        if path.exists():
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise KernelError(f"{name} is not installed.", hint="Install Triton, which has it.")
    return found
