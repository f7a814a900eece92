"""The packages that each engine needs beside ingle's own, pinned."""

from __future__ import annotations

import hashlib
import platform
import sysconfig
from functools import cache
from pathlib import Path

import msgspec

from ingle.models.struct_preparation import prepared

SPEECH = "speech"
"""The engine that recognises speech, which runs no language model."""
_FOLDER = Path(__file__).parent


class EnginePackages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Packages that make the engine `engine` of `registry.engines` available, or `SPEECH`.

    `distribution` is the main one, whose `module` is imported to check an installation.
    `requirements` names the file of pinned requirements. `download_bytes` is what they have
    together for Linux on x86-64. `unasked`: they are small enough to be fetched without a question.
    With `build`, CMake options, they are compiled here unless a wheel is at hand; with the program
    `tool` beside a C++ compiler.
    """

    name: str
    engine: str
    title: str
    distribution: str
    module: str
    requirements: str
    download_bytes: int
    unasked: bool = False
    build: dict[str, str] = {}
    tool: str = ""

    def pinned(self) -> list[str]:
        """Return the requirements, each with its version and the platforms that need it."""
        return (_FOLDER / self.requirements).read_text().splitlines()

    def digest(self) -> str:
        """Return hexadecimal digits that change with the versions, this Python and the platform."""
        return digest_of(*self.pinned(), repr(sorted(self.build.items())), abi())


def digest_of(*facts: str) -> str:
    """Return 16 hexadecimal digits for texts, and for the processor's architecture."""
    return hashlib.sha256("\n".join([*facts, platform.machine()]).encode()).hexdigest()[:16]


def abi() -> str:
    """Return the tag of compiled modules that this Python imports."""
    return str(sysconfig.get_config_var("SOABI") or sysconfig.get_platform())


@cache
def all_engine_packages() -> dict[str, EnginePackages]:
    """Return all that can be installed, by name, the preferred ones of each engine first."""
    text = (_FOLDER / "engine_packages.toml").read_bytes()
    table = msgspec.toml.decode(text, type=dict[str, dict[str, object]])
    return {
        name: msgspec.convert({"name": name, **entry}, prepared(EnginePackages))
        for name, entry in table.items()
    }
