"""Find heads on this machine that were trained to draft for a model, by its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ..errors import ModelError
from ..gguf.gguf_names import model_stem
from ..heads.eagle_settings import is_eagle_folder, read_eagle_settings
from ..heads.medusa_settings import is_medusa_folder, read_medusa_settings
from ..heads.mtp_file import is_mtp_file
from ..metadata.stored_model import StoredModel, UnusableModel

_WORDS = re.compile(r"\d+(?:\.\d+)?b?|[a-z]+")
_KIND = re.compile(r"eagle[-_ ]?3")
_SAYS_NOTHING = frozenset({"gguf", "hf", "co", "meta", "safetensors"})
_FEWEST = 2


def find_heads(model: StoredModel, unusable: Iterable[UnusableModel]) -> list[UnusableModel]:
    """Those of `unusable` that hold a head whose name has all words of the model's; reads files."""
    names = [words for name in _names_of(model) if (words := _words(name)).total() >= _FEWEST]
    found: list[UnusableModel] = []
    for each in unusable:
        path = Path(each.path)
        if is_eagle_folder(path) or is_medusa_folder(path):
            theirs = [_words(each.name), _words(_verifier(path))]
        elif is_mtp_file(path):
            theirs = [_words(path.name)]
        else:
            continue
        if any(name <= words for name in names for words in theirs):
            found.append(each)
    return found


def _names_of(model: StoredModel) -> list[str]:
    return [model_stem(name.replace(":", "-")) for name in (model.name, model.path.name)]


def _verifier(path: Path) -> str:
    try:
        if is_medusa_folder(path):
            return read_medusa_settings(path).verifier
        return read_eagle_settings(path).verifier
    except ModelError:  # which the load reports
        return ""


def _words(name: str) -> Counter[str]:
    """Words and numbers of a name, without its owner."""
    name = _KIND.sub(" ", name.lower().rpartition("/")[2])
    words = Counter(_WORDS.findall(name))
    for word in _SAYS_NOTHING:
        del words[word]
    return words
