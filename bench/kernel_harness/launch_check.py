"""Checks launches against what compiled kernels say of themselves, without running them."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from ingle.kernels.errors import LaunchFailed
from ingle.kernels.launch.cuda_driver import Argument, Grid

# What a block may have: registers, and bytes of shared memory by architecture if it asks for them.
_REGISTERS, _REGISTER_UNIT = 65536, 256
_SHARED_BYTES = {"sm_86": 101376, "sm_89": 101376, "sm_90": 232448, "sm_120": 101376}
_RESERVED = 1024
# Attributes of a cubin's .nv.info sections; entries of format 4 have data.
_WITH_DATA, _MAX_THREADS, _PARAMETER, _REGISTER_COUNT = 4, 0x05, 0x17, 0x2F


@dataclass
class KernelFacts:
    """Bytes of each parameter, registers of a thread, static shared memory, most threads."""

    parameters: dict[int, int] = field(default_factory=dict[int, int])
    registers: int = 0
    shared_bytes: int = 0
    most_threads: int = 1024


def kernel_facts(cubin: bytes) -> dict[str, KernelFacts]:
    """The facts of each kernel of a cubin (64-bit ELF) by name."""
    sections = _sections(cubin)
    names = sections[".strtab"]
    symbols = [
        _text(names, name) for (name, *_) in struct.iter_unpack("<IBBHQQ", sections[".symtab"])
    ]
    prefix = ".nv.info."
    facts = {name[len(prefix) :]: KernelFacts() for name in sections if name.startswith(prefix)}
    for attribute, data in _attributes(sections[".nv.info"]):
        if attribute == _REGISTER_COUNT:
            symbol, count = struct.unpack("<II", data)
            if symbols[symbol] in facts:
                facts[symbols[symbol]].registers = count
    for kernel, found in facts.items():
        shared = len(sections.get(f".nv.shared.{kernel}", b""))
        # Since sm_90 the section begins with what the driver keeps, which is not of the block's.
        reserved = _RESERVED if ".nv.shared.reserved.0" in sections else 0
        found.shared_bytes = max(0, shared - reserved)
        for attribute, data in _attributes(sections[prefix + kernel]):
            if attribute == _MAX_THREADS:
                found.most_threads = math.prod(struct.unpack("<III", data))
            elif attribute == _PARAMETER:
                _, ordinal, _, flags = struct.unpack("<IHHI", data)
                found.parameters[ordinal] = flags >> 18
    return facts


def check_launch(
    facts: KernelFacts,
    architecture: str,
    block: Grid,
    arguments: Sequence[Argument],
    shared_bytes: int,
) -> None:
    """Raise `LaunchFailed` for what a GPU would refuse, or would run with wrong arguments."""
    sizes = [ctypes.sizeof(each) for each in arguments]
    wanted = [facts.parameters[each] for each in sorted(facts.parameters)]
    if sizes != wanted:
        raise LaunchFailed(f"Arguments of {sizes} bytes are given, {wanted} are expected.")
    threads = math.prod(block)
    if threads > facts.most_threads:
        raise LaunchFailed(f"{threads} threads are more than {facts.most_threads}.")
    a_warp = -(-facts.registers * 32 // _REGISTER_UNIT) * _REGISTER_UNIT
    if a_warp * -(-threads // 32) > _REGISTERS:
        raise LaunchFailed(f"{threads} threads of {facts.registers} registers do not fit.")
    shared, most = facts.shared_bytes + shared_bytes, _SHARED_BYTES[architecture]
    if shared > most:
        raise LaunchFailed(f"{shared} bytes of shared memory are more than {most}.")


def _sections(elf: bytes) -> dict[str, bytes]:
    """The contents of each section by name; zeros where the file has only a size."""
    start, count, names_at = (
        struct.unpack_from("<Q", elf, 40)[0],
        *struct.unpack_from("<HH", elf, 60),
    )
    headers = [struct.unpack_from("<IIQQQQ", elf, start + 64 * i) for i in range(count)]
    *_, offset, size = headers[names_at]
    names = elf[offset : offset + size]
    no_bits = 8
    return {
        _text(names, name): bytes(size) if kind == no_bits else elf[offset : offset + size]
        for name, kind, _, _, offset, size in headers
    }


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode()


def _attributes(section: bytes) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(section):
        form, attribute, value = struct.unpack_from("<BBH", section, at)
        size = value if form == _WITH_DATA else 0
        found.append((attribute, section[at + 4 : at + 4 + size]))
        at += 4 + size
    return found
