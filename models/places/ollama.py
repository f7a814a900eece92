"""Ollama's folder: manifests that name their layers, which are files named by their SHA-256.

Source: Ollama's manifests, in the shape of container images; its kinds of layers are those of
`server/images.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..metadata.stored_model import FirstMessage
from ..struct_preparation import prepared
from .found_model import FoundModel, hub_name, unreadable

T = TypeVar("T")

_KIND = "application/vnd.ollama.image."
_DIGEST = re.compile("sha256[:-]([0-9a-f]{64})")
_LIBRARY = ("registry.ollama.ai", "library")
_HUBS = ("hf.co", "huggingface.co")
_LARGEST = 1 << 20
_OWN_TEMPLATE = "Ollama's template is in a language of its own; the one in the file is used."


class _Layer(msgspec.Struct, frozen=True, rename="camel"):
    media_type: str
    digest: str
    size: int = 0


class _Manifest(msgspec.Struct, frozen=True):
    layers: list[_Layer]


def find_in_ollama(folder: Path) -> Iterator[FoundModel]:
    """The models of its manifests, by Ollama's names for them."""
    for path in sorted((folder / "manifests").glob("*/*/*/*")):
        if path.name.startswith(".") or not path.is_file():
            continue
        host, owner, model, tag = path.parts[-4:]
        name = _name(host, owner, model, tag)
        try:
            with path.open("rb") as file:
                manifest = msgspec.json.decode(file.read(_LARGEST), type=prepared(_Manifest))
        except (OSError, msgspec.DecodeError) as error:
            yield FoundModel(name, path, problem=f"its manifest cannot be read: {error}")
            continue
        yield _finding(name, path, manifest, folder / "blobs")


def _name(host: str, owner: str, model: str, tag: str) -> str:
    if (host, owner) == _LIBRARY:
        return f"{model}:{tag}"
    if host in _HUBS and (name := hub_name(owner, model, tag.upper())):
        return name
    base = f"{owner}/{model}:{tag}"
    return base if host == _LIBRARY[0] else f"{host}/{base}"


def _finding(name: str, path: Path, manifest: _Manifest, blobs: Path) -> FoundModel:
    layers = {layer.media_type.removeprefix(_KIND): layer for layer in manifest.layers}
    weights = layers.get("model")
    if weights is None:
        problem = "it has no weights here: Ollama runs it in its cloud"
        if "tensor" in layers:
            problem = "Ollama keeps its weights tensor by tensor, which only Ollama reads"
        return FoundModel(name, path, problem=problem)
    match = _DIGEST.fullmatch(weights.digest)
    if match is None:
        return FoundModel(name, path, problem="its manifest names no SHA-256 for the weights")
    blob = _blob(blobs, weights.digest)
    problem = unreadable(blob)
    if "adapter" in layers:
        problem = "it puts an adapter over its weights, which ingle does not apply"
    elif not problem and weights.size and blob.stat().st_size != weights.size:
        problem = f"its weights are not the {weights.size} bytes that the manifest says"
    return FoundModel(
        name,
        blob,
        sha256=match[1],
        projector=_projector(blobs, layers),
        problem=problem,
        licence=_text(blobs, layers, "license").strip().partition("\n")[0].strip(),
        system=_text(blobs, layers, "system"),
        messages=_decoded(_text(blobs, layers, "messages"), tuple[FirstMessage, ...], ()),
        options=_decoded(_text(blobs, layers, "params"), dict[str, Any], {}),
        notes=(_OWN_TEMPLATE,) if "template" in layers else (),
    )


def _projector(blobs: Path, layers: Mapping[str, _Layer]) -> Path | None:
    layer = layers.get("projector")
    if layer is None or not _DIGEST.fullmatch(layer.digest):
        return None
    blob = _blob(blobs, layer.digest)
    return blob if blob.is_file() else None


def _blob(blobs: Path, digest: str) -> Path:
    path = blobs / digest.replace(":", "-")
    old = blobs / digest.replace("-", ":")  # as releases before 0.1.29 named them
    return old if not path.exists() and old.exists() else path


def _text(blobs: Path, layers: Mapping[str, _Layer], kind: str) -> str:
    """A small layer's text, or nothing."""
    layer = layers.get(kind)
    if layer is None or not _DIGEST.fullmatch(layer.digest):
        return ""
    with suppress(OSError), _blob(blobs, layer.digest).open("rb") as file:
        return file.read(_LARGEST).decode("utf-8", "replace")
    return ""


def _decoded(text: str, kind: type[T], otherwise: T) -> T:
    """The value of a JSON text, or `otherwise` if it has another type."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=prepared(kind))
    return otherwise
