"""Parse references to models: catalog names, hub repositories, paths."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from .catalog import HUB_HOST, NAME
from .errors import ModelNotFound

SAFETENSORS = "SAFETENSORS"
"""The tag of a repository's safetensors, where that of a GGUF file has its quantization."""
CTRANSLATE2 = "CTRANSLATE2"
"""The tag of a repository's model in CTranslate2's format, which recognises speech."""
_MAX_LENGTH = 4096
_HUB_PREFIX = re.compile(r"(?:https://)?(?:www\.)?(?:hf\.co|huggingface\.co)/", re.IGNORECASE)
_HUB_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,95}"
_HUB_REFERENCE = re.compile(
    rf"(?P<owner>{_HUB_NAME})/(?P<repo>{_HUB_NAME})(?::(?P<quant>[A-Za-z0-9][A-Za-z0-9_-]{{0,31}}))?/?"
)


class CatalogReference(msgspec.Struct, frozen=True):
    """A short name, in lower case; `tag` is None if none was given."""

    name: str
    tag: str | None = None

    def __str__(self) -> str:
        return self.name if self.tag is None else f"{self.name}:{self.tag}"


class HubReference(msgspec.Struct, frozen=True):
    """A repository on the Hugging Face hub; `quant` in upper case, or None; see `SAFETENSORS`."""

    owner: str
    repo: str
    quant: str | None = None

    def __str__(self) -> str:
        base = f"{HUB_HOST}/{self.owner}/{self.repo}"
        return base if self.quant is None else f"{base}:{self.quant}"


class PathReference(msgspec.Struct, frozen=True):
    """A GGUF file or a model's folder somewhere on this machine, as an absolute path."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


ModelReference = CatalogReference | HubReference | PathReference


def parse_reference(text: str) -> ModelReference:
    """The kind of reference that `text` is.

    Relative paths count from the working folder. Raises `ModelNotFound` for an impossible name.
    """
    text = text.strip()
    if not text or len(text) > _MAX_LENGTH or not text.isprintable():
        raise ModelNotFound(
            "That is not a name of a model.", hint="`ingle list` shows what there is."
        )
    if hub := _HUB_PREFIX.match(text):
        return _hub_reference(text[hub.end() :], text)
    is_path = text[0] in ".~" or any(letter in text for letter in (os.sep, os.altsep or "/", "/"))
    if is_path or (text.lower().endswith(".gguf") and Path(text).exists()):
        try:
            return PathReference(Path(text).expanduser().absolute())
        except RuntimeError:  # a `~name` whose home is unknown
            raise ModelNotFound(f"There is no folder {text!r}.") from None
    name, colon, tag = text.lower().partition(":")
    if not NAME.fullmatch(name) or name == HUB_HOST or (colon and not NAME.fullmatch(tag)):
        raise ModelNotFound(
            f"{text!r} is not a name of a model.",
            hint="Names look like `smollm2`, `smollm2:135m` or `hf.co/owner/repo:Q4_K_M`.",
        )
    return CatalogReference(name, tag or None)


def hub_repository(text: str) -> HubReference | None:
    """`owner/repo` if it can be a repository of the hub, else None."""
    match = _HUB_REFERENCE.fullmatch(text)
    return HubReference(match["owner"], match["repo"]) if match else None


def _hub_reference(rest: str, text: str) -> HubReference:
    match = _HUB_REFERENCE.fullmatch(rest)
    if match is None:
        raise ModelNotFound(
            f"{text!r} does not name a repository on the hub.",
            hint="Write it as `hf.co/owner/repo` or `hf.co/owner/repo:Q4_K_M`.",
        )
    quant = match["quant"]
    return HubReference(match["owner"], match["repo"], quant.upper() if quant else None)
