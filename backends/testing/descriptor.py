"""The scripted engine: answers from `LoadSpec.script`, for tests and benches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..base.load_spec import LoadSpec
from ..registry.engine_descriptor import EngineDescriptor, Progress

if TYPE_CHECKING:
    from .scripted_model_runner import ScriptedModelRunner


class _ScriptFiles(msgspec.Struct):
    trace: str | None = None


class ScriptedEngine(EngineDescriptor):
    """Plays a script unchanged: without speculation, and with invalid tool calls."""

    name = "scripted"
    label = "scripted"
    title = "the scripted engine"
    formats = frozenset({"gguf"})
    uses_gpu = False
    auto_speculation = False
    constrains_calls = False

    def extra_files(self, spec: LoadSpec) -> Iterable[Path]:
        """Return the trace file of the script."""
        if spec.script is not None:
            trace = msgspec.json.decode(spec.script, type=_ScriptFiles).trace
            if trace is not None:
                yield Path(trace)

    def open_runner(self, spec: LoadSpec, on_progress: Progress) -> ScriptedModelRunner:
        """Read the script."""
        from .scripted_model_runner import ScriptedModelRunner

        return ScriptedModelRunner(spec, on_progress)


ENGINE = ScriptedEngine()
