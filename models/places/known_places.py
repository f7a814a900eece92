"""Where other programs keep models on this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from ..struct_preparation import prepared
from .found_model import Place
from .llama_cpp_cache import find_in_llama_cpp_cache
from .model_folders import find_in_hugging_face_cache, find_in_lm_studio, find_in_plain_folder
from .ollama import find_in_ollama

_LONGEST = 4096


class _Settings(msgspec.Struct, frozen=True):
    downloads_folder: str = msgspec.field(name="downloadsFolder", default="")


def known_places(environ: Mapping[str, str], home: Path) -> list[Place]:
    """The folders of programs whose layout is known, whether they exist or not."""
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    found = [
        Place("Hugging Face", _hugging_face(environ, cache), find_in_hugging_face_cache),
        *(Place("LM Studio", path, find_in_lm_studio) for path in _lm_studio(home)),
        *(Place("Ollama", path, find_in_ollama) for path in _ollama(environ, home)),
        Place("llama.cpp", _llama_cpp(environ, home, cache), find_in_llama_cpp_cache),
    ]
    return list({place.folder: place for place in found}.values())


def plain_places(folders: Iterable[Path]) -> list[Place]:
    """Folders that the configuration names."""
    return [Place(str(folder), folder, find_in_plain_folder) for folder in folders]


def _hugging_face(environ: Mapping[str, str], cache: Path) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if path := environ.get(name):
            return Path(path).expanduser()
    if path := environ.get("HF_HOME"):
        return Path(path).expanduser() / "hub"
    return cache / "huggingface" / "hub"


def _lm_studio(home: Path) -> Iterator[Path]:
    base = home / ".lmstudio"
    with suppress(OSError, ValueError):
        text = _read(home / ".lmstudio-home-pointer").decode().strip()
        base = Path(text) if Path(text).is_absolute() else base
    with suppress(OSError, ValueError):
        settings = msgspec.json.decode(_read(base / "settings.json"), type=prepared(_Settings))
        if Path(settings.downloads_folder).is_absolute():
            yield Path(settings.downloads_folder)
    yield base / "models"
    yield home / ".cache" / "lm-studio" / "models"


def _ollama(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    if path := environ.get("OLLAMA_MODELS"):
        yield Path(path).expanduser()
    yield home / ".ollama" / "models"
    if sys.platform.startswith("linux"):
        yield Path("/usr/share/ollama/.ollama/models")


def _llama_cpp(environ: Mapping[str, str], home: Path, cache: Path) -> Path:
    if path := environ.get("LLAMA_CACHE"):
        return Path(path).expanduser()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "llama.cpp"
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "llama.cpp"
    return cache / "llama.cpp"


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LONGEST * 16)
