"""The model under verification: its files, configuration and tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ingle.models.config.model_config import ModelConfig
from ingle.models.gguf.gguf_header import read_header
from ingle.models.gguf.gguf_support import check_supported
from ingle.models.safetensors.model_folder import NF4, read_folder

from ...cuda.model_source import open_tokenizer
from ...text.tokenization.tokenizer import Tokenizer

_PLAIN = frozenset({"F32", "F16", "BF16"})


@dataclass(frozen=True)
class VerifiedModel:
    """A model of a family that ingle's own engine supports.

    `quantization` names the type of most weights; `is_quantized` says whether any are not plain
    floats.
    """

    path: Path
    config: ModelConfig
    quantization: str
    is_quantized: bool
    tokenizer: Tokenizer

    @property
    def bos(self) -> int | None:
        """Return the token that every text begins with, None without one."""
        tokenizer = self.tokenizer
        if not tokenizer.adds_bos:
            return None
        return tokenizer.encode("", add_special=True, parse_special=False)[0]

    def encode(self, text: str) -> list[int]:
        """Return the text's tokens, as a prompt begins."""
        return self.tokenizer.encode(text, add_special=True, parse_special=False)

    def text_of(self, token: int) -> str:
        """Return the token as text."""
        return self.tokenizer.token_bytes(token, special=True).decode("utf-8", "replace")


def open_verified_model(path: Path) -> VerifiedModel:
    """Check a model's files and read its vocabulary; raises `ModelError` or `LoadFailed`.

    Native code reads only files that passed the checks.
    """
    quantization, is_quantized = _describe_folder(path) if path.is_dir() else _describe_file(path)
    # PyTorch is the slowest import, and many files are refused before it is needed.
    from ...cuda.model_files import open_model

    config = open_model(path).config
    tokenizer = open_tokenizer(path, config.vocab_size)
    return VerifiedModel(path, config, quantization, is_quantized, tokenizer)


def _describe_folder(path: Path) -> tuple[str, bool]:
    kind = read_folder(path).quantization
    return kind, kind == NF4


def _describe_file(path: Path) -> tuple[str, bool]:
    header = read_header(path)
    check_supported(header)
    return header.quantization, any(tensor.type not in _PLAIN for tensor in header.tensors)
