"""Which sound model files an engine here can run."""

from __future__ import annotations

from .errors import UnsupportedModel
from .gguf import GGUFHeader


def check_supported(header: GGUFHeader) -> None:
    """Raise `UnsupportedModel` for a file that is no whole language model that generates text."""
    reason = _reason(header)
    if reason is not None:
        raise UnsupportedModel(f"{header.path} {reason}.", hint="Choose another file.")


def _reason(header: GGUFHeader) -> str | None:
    kind = header.text("general.type")
    if header.architecture == "clip" or kind == "mmproj":
        return "is a vision projector, which only works beside a language model"
    if kind in ("adapter", "imatrix", "vocab"):
        return f"holds an {kind}, not a model" if kind != "vocab" else "holds only a vocabulary"
    parts = header.metadata.get("split.count")
    if isinstance(parts, int) and parts > 1:
        return f"is one of {parts} parts of a model, which ingle cannot join yet"
    if not header.tensors:
        return "holds no weights, only a vocabulary"
    if header.metadata.get(f"{header.architecture}.attention.causal") is False:
        return "is an embedding model, which does not generate text"
    return None
