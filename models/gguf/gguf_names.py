"""Names of GGUF files: quantization, shard number, and the name of the model."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_QUANT = re.compile(
    r"(?:^|[-._])((?:UD-)?(?:IQ\d_[A-Z0-9_]+|Q\d_K(?:_[A-Z]{1,2})?|Q\d_\d(?:_\d_\d)?|TQ\d_\d"
    r"|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32))(?=[-._]|$)",
    re.IGNORECASE,
)
MAX_SHARDS = 1024


class Shard(msgspec.Struct, frozen=True):
    """One file of a model in several; numbers count from 1."""

    stem: str
    number: int
    count: int

    def names(self) -> list[str]:
        """The files of the whole model, in order."""
        return [f"{self.stem}-{n:05}-of-{self.count:05}.gguf" for n in range(1, self.count + 1)]


def parse_shard(name: str) -> Shard | None:
    """The part that a file is by its name, in the pattern of llama.cpp's gguf-split."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return Shard(match["stem"], number, count) if 1 <= number <= count <= MAX_SHARDS else None


def shard_paths(path: Path) -> list[Path]:
    """The files of the model that `path` is, or is a part of, in order."""
    shard = parse_shard(path.name)
    return [path] if shard is None else [path.with_name(name) for name in shard.names()]


def quantization_in(name: str) -> str | None:
    """The quantization in a file's name, in upper case, where there is one."""
    found = _QUANT.findall(_stem(name))
    return found[-1].upper() if found else None


def quantization_of(name: str) -> str:
    """The quantization in a file's name, in upper case, else what the name itself can give."""
    return quantization_in(name) or re.sub(r"[^A-Z0-9_-]", "-", _stem(name).upper())[:32]


def model_stem(name: str) -> str:
    """A file's name without what says how it is stored, as people would call the model."""
    stem = _stem(name)
    found = list(_QUANT.finditer(stem))
    return (stem[: found[-1].start()] + stem[found[-1].end() :]) if found else stem


def is_language_model(name: str) -> bool:
    """Whether a file is meant to be a model of its own: no projector, statistics or head."""
    lower = name.lower()
    is_other = "mmproj" in lower or "imatrix" in lower or is_head_name(lower)
    return lower.endswith(".gguf") and not is_other


def is_head_name(name: str) -> bool:
    """Whether a file is called as llama.cpp's converter calls heads that draft."""
    return name.lower().replace("\\", "/").rpartition("/")[2].startswith("mtp-")


def _stem(name: str) -> str:
    base = name.replace("\\", "/").rpartition("/")[2]
    shard = parse_shard(base)
    return shard.stem if shard else re.sub(r"\.gguf$", "", base, flags=re.IGNORECASE)
