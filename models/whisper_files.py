"""The files of a Whisper model in CTranslate2's format, by their names."""

from __future__ import annotations

from collections.abc import Collection

WEIGHTS = "model.bin"
"""No pickle, but a list of arrays."""
_NEEDED = ("config.json", "tokenizer.json", WEIGHTS)
_VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
FILES = (*_NEEDED, *_VOCABULARIES, "preprocessor_config.json")
"""Nothing else of a folder is read or fetched."""


def is_whisper(names: Collection[str]) -> bool:
    """Whether a folder with files of these names can be such a model."""
    return all(name in names for name in _NEEDED) and any(n in names for n in _VOCABULARIES)
