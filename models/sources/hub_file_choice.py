"""Which files of a repository on the hub make one model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..catalog import FILE
from ..errors import ModelNotFound, UnsupportedModel
from ..gguf.gguf_names import is_language_model, parse_shard, quantization_of
from ..model_reference import SAFETENSORS
from ..safetensors.folder_files import BESIDE, CONFIG, TOKENIZER, is_weights
from .download_source import RemoteFile

_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "IQ4_XS", "Q8_0", "BF16", "F16")
_PICKLE = re.compile(r".+\.(bin|pt|pth|ckpt)")


@dataclass(frozen=True, slots=True)
class HubModel:
    """The files of one model of a repository; `tag` tells it from others there.

    `paths` are the files' places in the repository at `revision`; `licence` is what its card says.
    """

    tag: str
    files: tuple[RemoteFile, ...]
    paths: tuple[str, ...]
    revision: str = "main"
    licence: str = ""


def choose_model(repo: str, files: Sequence[RemoteFile], tag: str | None) -> HubModel:
    """Pick among a repository's files by their names; see `find_model`."""
    models = _by_quantization(files)
    if tag == SAFETENSORS or (tag is None and not models):
        return choose_safetensors(repo, files)
    for name in (tag,) if tag else (*_PREFERRED, *models):
        if name in models:
            paths = models[name]
            chosen = tuple(replace(file, name=_base(file.name)) for file in paths)
            return HubModel(name, chosen, tuple(file.name for file in paths))
    known = ", ".join(sorted(models)) or "none in GGUF"
    raise ModelNotFound(f"hf.co/{repo} has no {tag}.", hint=f"It has: {known}.")


def _by_quantization(files: Sequence[RemoteFile]) -> dict[str, list[RemoteFile]]:
    """The GGUF models of a repository, each with all its parts in order."""
    by_path = {file.name: file for file in files}
    found: dict[str, list[RemoteFile]] = {}
    # Files at the top come first: folders may repeat them.
    for path in sorted(by_path, key=lambda path: (path.count("/"), path)):
        shard = parse_shard(_base(path))
        if not is_language_model(path) or not FILE.fullmatch(_base(path)):
            continue
        if shard is None:
            found.setdefault(quantization_of(path), [by_path[path]])
        elif shard.number == 1:
            folder = path.removesuffix(_base(path))
            parts = [by_path.get(folder + name) for name in shard.names()]
            whole = [part for part in parts if part is not None]
            if len(whole) == shard.count:
                found.setdefault(quantization_of(path), whole)
    return found


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def choose_safetensors(repo: str, files: Sequence[RemoteFile]) -> HubModel:
    """A repository's safetensors with what describes them: small files first, then the weights.

    Raises as `find_model`.
    """
    names = {file.name for file in files}
    if adapter := names & {"adapter_config.json"}:
        raise UnsupportedModel(
            f"hf.co/{repo} holds an adapter ({adapter.pop()}), not a model.",
            hint="Pull the model that it was made for, or one into which it was merged.",
        )
    weights = [file for file in files if is_weights(file.name)]
    if not weights and any(_PICKLE.fullmatch(name) for name in names):
        raise UnsupportedModel(
            f"hf.co/{repo} has its weights in a pickle, which could run any code.",
            hint="Look for an edition in GGUF or safetensors.",
        )
    if not weights:
        raise ModelNotFound(
            f"hf.co/{repo} has neither GGUF files nor safetensors.",
            hint="Look for a repository whose name ends in GGUF.",
        )
    for name in (CONFIG, TOKENIZER):
        if name not in names:
            raise UnsupportedModel(
                f"hf.co/{repo} has safetensors but no {name}.",
                hint="Look for an edition in GGUF.",
            )
    if len(weights) > 1:  # some repositories have the model whole beside its parts
        weights = [file for file in weights if file.name != "model.safetensors"] or weights
    beside = sorted((f for f in files if f.name in BESIDE), key=lambda f: f.name != CONFIG)
    chosen = (*beside, *sorted(weights, key=lambda file: file.name))
    return HubModel(SAFETENSORS, chosen, tuple(file.name for file in chosen))
