"""Prompts that have a model fill a gap: what stands around it, between control tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from ...base.conversation import Infill, InfillFile
from ...base.errors import RequestRejected
from ..tokenization.tokenizer import GapMark, Tokenizer

NEAR_TOKENS = 2048
"""Most of the text around the gap: three quarters before it, one behind it.

In a small context other files may have as much as that.
"""

_CHARACTERS_A_TOKEN = 16
"""No tokenizer makes so few tokens of code that it would matter."""
_STEPS = 4
_REPOSITORY = "project\n"
_CURRENT_FILE = "current\n"
_KEPT_FILES = 32

# Each row: what begins the prefix, the suffix and the filling, what names a repository and a file,
# and whether the suffix comes first.
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
class GapMarks:
    """The control tokens around a gap; the filling of some models begins without one.

    With `suffix_first` the text behind the gap comes before the one in front of it.
    """

    prefix: int
    suffix: int
    middle: int | None = None
    repository: int | None = None
    file: int | None = None
    suffix_first: bool = False


def find_marks(tokenizer: Tokenizer) -> GapMarks | None:
    """Those of a vocabulary, by what its file says or by well-known names; None without any."""
    told = tokenizer.gap_marks
    for prefix, suffix, middle, repositories, files, suffix_first in _FAMILIES:
        before, behind = tokenizer.find_token(prefix), tokenizer.find_token(suffix)
        if before is None or behind is None:
            continue
        between = tokenizer.find_token(middle) if middle else None
        if middle and between is None:
            continue
        marks = GapMarks(
            before,
            behind,
            between,
            _first(tokenizer, repositories),
            _first(tokenizer, files),
            suffix_first,
        )
        return _as_told(marks, told)
    if not {"prefix", "suffix", "middle"} <= told.keys():
        return None
    return _as_told(GapMarks(told["prefix"], told["suffix"], told["middle"]), told)


def _first(tokenizer: Tokenizer, names: Sequence[str]) -> int | None:
    found = (tokenizer.find_token(name) for name in names)
    return next((token_id for token_id in found if token_id is not None), None)


def _as_told(marks: GapMarks, told: Mapping[GapMark, int]) -> GapMarks:
    """The marks, with the file's own word where it has one."""
    return GapMarks(
        told.get("prefix", marks.prefix),
        told.get("suffix", marks.suffix),
        told.get("middle", marks.middle),
        told.get("repository", marks.repository),
        told.get("file", marks.file),
        marks.suffix_first,
    )


class InfillPrompts:
    """Makes the prompts of one model, so that from one keystroke to the next they begin alike.

    Used from one thread.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.marks = find_marks(tokenizer)
        self._file = lru_cache(_KEPT_FILES)(self._encode_file)

    def build(self, infill: Infill, *, room: int) -> list[int]:
        """The tokens, `room` at most unless that is next to nothing; raises `RequestRejected`."""
        marks = self.marks
        if marks is None:
            raise RequestRejected(
                "This model cannot fill gaps: its vocabulary has no tokens for that.",
                hint="Choose a model for code such as qwen2.5-coder, or leave out the suffix.",
                code="no_infill",
                param="suffix",
            )
        begins = self._begin()
        current = self._current_file() if infill.files else []
        room -= len(begins) + len(current) + 3
        near = max(_STEPS, min(NEAR_TOKENS, room // 2 if infill.files else room))
        prefix = [marks.prefix, *self._end(infill.prefix + infill.middle, near - near // 4)]
        suffix = [marks.suffix, *self._beginning(infill.suffix, near // 4)]
        # What is left for files does not depend on how long the text around the gap happens to be.
        files = self._files(infill.files, room - near)
        if files:
            files += current
        around = (suffix, prefix) if marks.suffix_first else (prefix, suffix)
        middle = [] if marks.middle is None else [marks.middle]
        return [*begins, *files, *chain(*around), *middle]

    def _begin(self) -> list[int]:
        if not self._tokenizer.adds_bos:
            return []
        return self._tokenizer.encode("", add_special=True, parse_special=False)[:1]

    def _files(self, files: Sequence[InfillFile], room: int) -> list[int]:
        """As many as fit, the most important ones first to be taken and last in order."""
        repository = self.marks.repository if self.marks else None
        header = [] if repository is None else [repository, *self._encode(_REPOSITORY)]
        room -= len(header)
        taken: list[list[int]] = []
        for file in reversed(files):
            if len(file.text) > _CHARACTERS_A_TOKEN * max(0, room):
                continue
            tokens = self._file(file)
            if len(tokens) <= room:
                taken.append(tokens)
                room -= len(tokens)
        return [*header, *chain(*reversed(taken))] if taken else []

    def _current_file(self) -> list[int]:
        """What tells the files from the text around the gap."""
        return self._file(InfillFile(_CURRENT_FILE.strip(), ""))

    def _encode_file(self, file: InfillFile) -> list[int]:
        name = " ".join(file.name.split()) or _CURRENT_FILE.strip()
        separator = self.marks.file if self.marks else None
        if separator is None:
            return self._encode(f"\n\n--- {name} ---\n\n{file.text}")
        return [separator, *self._encode(f"{name}\n{file.text}")]

    def _end(self, text: str, most: int) -> list[int]:
        """The last tokens of a text, cut where it will be cut again when it is a little longer."""
        characters = _CHARACTERS_A_TOKEN * most
        if len(text) > characters:
            text = text[_excess(len(text), characters) :]
            text = text[text.find("\n") + 1 :]
        tokens = self._encode(text)
        return tokens[_excess(len(tokens), most) :]

    def _beginning(self, text: str, most: int) -> list[int]:
        return self._encode(text[: _CHARACTERS_A_TOKEN * most])[:most]

    def _encode(self, text: str) -> list[int]:
        # A control token that is written out in code is text like any other.
        return self._tokenizer.encode(text, add_special=False, parse_special=False)


def _excess(length: int, most: int) -> int:
    """How much to leave out, in steps: else each keystroke would move all that is kept."""
    step = max(1, most // _STEPS)
    return -(-max(0, length - most) // step) * step
