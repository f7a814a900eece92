"""Messages of the check's process, one JSON object per line."""

from __future__ import annotations

import msgspec


class EngineCheckSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The engine to check; kernels that it compiles are kept in the folder `kernel_cache`."""

    engine: str
    kernel_cache: str


class EngineCheckStep(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """One step that ended; `remedy` is what to do if it failed, `detail` what was found."""

    name: str
    passed: bool
    detail: str = ""
    remedy: str = ""


class EngineCheckEnd(msgspec.Struct, frozen=True, tag="end"):
    """All steps were made, or one failed."""
