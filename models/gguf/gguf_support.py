"""Check whether any engine can run a valid GGUF file."""

from __future__ import annotations

from ..errors import UnsupportedModel
from ..model_task import classifies
from .gguf_header import GGUFHeader

# Architectures that llama.cpp reads, but that need another loop than decoding or embedding.
_OTHER_WAYS = {
    "t5": "reads with one half and writes with the other (T5)",
    "t5encoder": "is the reading half of a T5",
    "dream": "writes text by diffusion",
    "llada": "writes text by diffusion",
    "llada-moe": "writes text by diffusion",
    "rnd1": "writes text by diffusion",
    "wavtokenizer-dec": "decodes sound",
}
_NO_VOCABULARIES = ("none", "no_vocab")


def check_supported(header: GGUFHeader) -> None:
    """Raise `UnsupportedModel` for a file that holds no whole model, or one that nothing runs."""
    reason = _reason(header)
    if reason is not None:
        raise UnsupportedModel(f"{header.path} {reason}.", hint="Choose another file.")


def holds_only_head(header: GGUFHeader) -> bool:
    """Whether of a model's layers a file has only those that predict later tokens."""
    if not header.integer("nextn_predict_layers"):
        return False
    names = [tensor.name for tensor in header.tensors]
    has_first = any(name.startswith("blk.0.") for name in names)
    return not has_first and any(".nextn." in name for name in names)


def _reason(header: GGUFHeader) -> str | None:
    kind = header.text("general.type")
    if header.architecture == "clip" or kind == "mmproj":
        return "is a vision projector, which only works beside a language model"
    if kind in ("adapter", "imatrix", "vocab"):
        return f"holds an {kind}, not a model" if kind != "vocab" else "holds only a vocabulary"
    if not header.tensors:
        return "holds no weights, only a vocabulary"
    if holds_only_head(header):
        return "holds a head that drafts for a model, which only works beside it"
    vocabulary = header.text("tokenizer.ggml.model")
    if vocabulary in _NO_VOCABULARIES:
        return "has no vocabulary, without which no engine here can read text"
    if vocabulary == "rwkv" and "rwkv" not in header.architecture:
        return (
            f"has the vocabulary of RWKV for a {header.architecture}, and cannot read text with it"
        )
    if way := _OTHER_WAYS.get(header.architecture):
        return f"{way}, which no engine here can do"
    if classifies(header):
        return "sorts texts into classes, which no route here asks for"
    return None
