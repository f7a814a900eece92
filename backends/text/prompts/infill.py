"""Builds infill (FIM) prompts: prefix and suffix between control tokens, with other files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from ...base.conversation import Infill, InfillFile
from ...base.errors import RequestRejected
from ..tokenization.tokenizer import Tokenizer

NEAR_TOKENS = 2048
"""Most tokens around the infill: three quarters before it, one quarter after it.

In a small context other files may have as many.
"""

_CHARACTERS_A_TOKEN = 16
"""An upper bound for the characters of one token of code."""
_STEPS = 4
_REPOSITORY = "project\n"
_CURRENT_FILE = "current\n"
_KEPT_FILES = 32

# Each row: the tokens before prefix, suffix and middle, repository and file tokens, and whether the
# suffix comes first.
_FAMILIES: tuple[tuple[str, str, str, tuple[str, ...], tuple[str, ...], bool], ...] = (
    (
        *("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        *(("<|repo_name|>", "<|fim_repo|>"), ("<|file_sep|>", "<|file_separator|>"), False),
    ),
    (
        *("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        *(("<repo_name>", "<reponame>"), ("<file_sep>", "<filename>"), False),
    ),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>", ("<fim-repo>",), (), False),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", (), (), False),
    ("▁<PRE>", "▁<SUF>", "▁<MID>", (), (), False),
    ("<PRE>", "<SUF>", "<MID>", ("<REPO>",), (), False),
    ("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", (), (), False),
    ("<|prefix|>", "<|suffix|>", "<|middle|>", (), (), False),
    ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", (), (), True),
    ("[PREFIX]", "[SUFFIX]", "", (), (), True),
)


@dataclass(frozen=True, slots=True)
class InfillMarks:
    """The control tokens of infill; some models have none before the middle.

    With `suffix_first` the suffix comes before the prefix.
    """

    prefix: int
    suffix: int
    middle: int | None = None
    repository: int | None = None
    file: int | None = None
    suffix_first: bool = False


def find_marks(tokenizer: Tokenizer) -> InfillMarks | None:
    """Return the infill tokens of a vocabulary, by metadata or well-known names; None
    without any.
    """
    named = tokenizer.infill_tokens
    for prefix, suffix, middle, repositories, files, suffix_first in _FAMILIES:
        before, after = tokenizer.find_token(prefix), tokenizer.find_token(suffix)
        between = tokenizer.find_token(middle) if middle else None
        if before is None or after is None or (middle and between is None):
            continue
        others = _first(tokenizer, repositories), _first(tokenizer, files)
        return replace(InfillMarks(before, after, between, *others, suffix_first), **named)
    if not {"prefix", "suffix", "middle"} <= named.keys():
        return None
    return replace(InfillMarks(named["prefix"], named["suffix"]), **named)


def _first(tokenizer: Tokenizer, names: Sequence[str]) -> int | None:
    found = (tokenizer.find_token(name) for name in names)
    return next((token_id for token_id in found if token_id is not None), None)


class InfillPrompts:
    """Builds the prompts of one model such that consecutive keystrokes share a prefix.

    Used from one thread.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.marks = find_marks(tokenizer)
        self._file = lru_cache(_KEPT_FILES)(self._encode_file)

    def build(self, infill: Infill, *, limit: int) -> list[int]:
        """Return at most `limit` tokens, except for tiny limits; raises `RequestRejected`."""
        marks = self.marks
        if marks is None:
            raise RequestRejected(
                "This model does not support infill: its vocabulary has no tokens for it.",
                hint="Choose a model for code such as qwen2.5-coder, or leave out the suffix.",
                code="no_infill",
                param="suffix",
            )
        begins = self._begin()
        # The separator between the files and the text around the infill.
        current = self._file(InfillFile(_CURRENT_FILE.strip(), "")) if infill.files else []
        limit -= len(begins) + len(current) + 3
        near = max(_STEPS, min(NEAR_TOKENS, limit // 2 if infill.files else limit))
        prefix = [marks.prefix, *self._end(infill.prefix + infill.middle, near - near // 4)]
        suffix = [marks.suffix, *self._beginning(infill.suffix, near // 4)]
        # The share for files must not depend on the present length of the text around the infill.
        files = self._files(infill.files, limit - near)
        if files:
            files += current
        around = (suffix, prefix) if marks.suffix_first else (prefix, suffix)
        middle = [] if marks.middle is None else [marks.middle]
        return [*begins, *files, *chain(*around), *middle]

    def _begin(self) -> list[int]:
        if not self._tokenizer.adds_bos:
            return []
        return self._tokenizer.encode("", add_special=True, parse_special=False)[:1]

    def _files(self, files: Sequence[InfillFile], limit: int) -> list[int]:
        """Return as many files as fit; the most important are chosen first and come last."""
        repository = self.marks.repository if self.marks else None
        header = [] if repository is None else [repository, *self._encode(_REPOSITORY)]
        limit -= len(header)
        taken: list[list[int]] = []
        for file in reversed(files):
            if len(file.text) > _CHARACTERS_A_TOKEN * max(0, limit):
                continue
            tokens = self._file(file)
            if len(tokens) <= limit:
                taken.append(tokens)
                limit -= len(tokens)
        return [*header, *chain(*reversed(taken))] if taken else []

    def _encode_file(self, file: InfillFile) -> list[int]:
        name = " ".join(file.name.split()) or _CURRENT_FILE.strip()
        separator = self.marks.file if self.marks else None
        if separator is None:
            return self._encode(f"\n\n--- {name} ---\n\n{file.text}")
        return [separator, *self._encode(f"{name}\n{file.text}")]

    def _end(self, text: str, most: int) -> list[int]:
        """Return the last tokens of a text, cut at a position that stays stable as it grows."""
        characters = _CHARACTERS_A_TOKEN * most
        if len(text) > characters:
            text = text[_excess(len(text), characters) :]
            text = text[text.find("\n") + 1 :]
        tokens = self._encode(text)
        return tokens[_excess(len(tokens), most) :]

    def _beginning(self, text: str, most: int) -> list[int]:
        return self._encode(text[: _CHARACTERS_A_TOKEN * most])[:most]

    def _encode(self, text: str) -> list[int]:
        # A control token spelled out in code is plain text.
        return self._tokenizer.encode(text, add_special=False, parse_special=False)


def _excess(length: int, most: int) -> int:
    """Return how many tokens to drop, in steps: otherwise each keystroke would shift all that is
    kept.
    """
    step = max(1, most // _STEPS)
    return -(-max(0, length - most) // step) * step
