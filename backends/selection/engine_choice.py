"""Chooses the engine that runs a model, from the descriptors of the engines."""

from __future__ import annotations

from collections.abc import Collection

from ingle.models.errors import UnsupportedModel

from ..registry.cuda_availability import CudaAvailability
from ..registry.engine_descriptor import LoadQuery
from ..registry.engines import DEFAULT_ENGINE, all_engines, get_engine


def choose_engine(query: LoadQuery, wanted: str, own: CudaAvailability) -> str:
    """Return the requested engine, or for "auto" the first that suits the model and the machine.

    Whether the model fits into memory does not count. Raises `UnsupportedModel` if the engine
    cannot run the model, `LoadFailed` if the engine is not installed.
    """
    readers = [engine for engine in all_engines() if query.file_format in engine.formats]
    if wanted != "auto":
        engine = get_engine(wanted)
        if engine not in readers:
            folder = query.file_format == "safetensors"
            files = "safetensors" if folder else "a GGUF file"
            names = " or ".join(each.name for each in readers)
            instead = ", or get the model as a GGUF file" if folder else ""
            raise UnsupportedModel(
                f"{query.model.path} holds {files}, which {engine.title} does not read.",
                hint=f"Run it with the engine {names}{instead}.",
            )
    else:
        engine = next((each for each in readers if each.suits(query, own)), readers[0])
    error = engine.refusal(query) or engine.why_unavailable(own)
    if error is not None:
        raise error
    return engine.name


def choose_for_types(
    architecture: str,
    tensor_types: Collection[str],
    wanted: str,
    own: CudaAvailability,
    *,
    mixture: bool,
) -> str:
    """Return the engine for a GGUF file of which only what the arguments say is known."""
    for engine in all_engines():
        fits = "gguf" in engine.formats and engine.runs_types(
            architecture, tensor_types, mixture=mixture, asked=wanted == engine.name
        )
        if fits and wanted in ("auto", engine.name) and engine.is_ready(own):
            return engine.name
    return DEFAULT_ENGINE


def why_not_preferred(query: LoadQuery, own: CudaAvailability | None = None) -> str:
    """Return why an engine that is preferred to the default one cannot run the model.

    The clause can follow "because"; it is "" if no such engine is ready here (on any machine, if
    `own` is None), or if it can run the model.
    """
    for engine in all_engines():
        if engine.name == DEFAULT_ENGINE:
            break
        reason = engine.why_not(query) if own is None or engine.is_ready(own) else ""
        if reason:
            return reason
    return ""
