"""Grades answers by their words, without a judge model."""

from __future__ import annotations

import re

_COUNT = "zero one two three four five six seven eight nine ten eleven twelve"
_WORDS: dict[str, str] = {word: str(number) for number, word in enumerate(_COUNT.split(" "))}
_MONTH_NAMES = (
    "january february march april may june july august september october november december"
)
_MONTHS: dict[str, str] = {name[:3]: name for name in _MONTH_NAMES.split(" ")}
_UNKNOWN = re.compile(
    r"unknown|not (?:\w+ )*(?:mention|said|say|specif|provid|given|stated|know|discuss|available)"
    r"|no (?:information|mention|record)|never (?:said|mentioned)|(?:do|does|did)(?:n['’]t| not)"
    r" (?:know|mention|say|specify|provide|state)|n/a|cannot (?:say|tell|determine)",
    re.IGNORECASE,
)


def says(answer: str, value: str) -> bool:
    """Return whether the answer contains the value, in one of the wordings separated by `|`."""
    said = normalised(answer)
    return any(_contains(said, normalised(wording), wording) for wording in value.split("|"))


def abstains(answer: str) -> bool:
    """Return whether the answer states that nothing is known."""
    return _UNKNOWN.search(answer) is not None


def normalised(text: str) -> str:
    """Lower case, words apart by one blank, small numbers as digits, days before months."""
    text = re.sub(r"\b(\d+)(?:st|nd|rd|th)\b", r"\1", text.casefold().replace("’", "'"))
    text = re.sub(r"(\d)[, ](\d{3})\b", r"\1\2", text)
    found: list[str] = re.findall(r"[\w#]+", text)
    words = [_WORDS.get(word, word) for word in found]
    words = [word for word in words if word not in ("of", "the", "a", "an")]
    for index in range(len(words) - 1):
        if words[index + 1].isdigit() and words[index][:3] in _MONTHS:
            words[index], words[index + 1] = words[index + 1], words[index]
    return " ".join(_MONTHS.get(word[:3], word) for word in words)


def _contains(said: str, value: str, wording: str) -> bool:
    """Match numbers and codes as whole words, others also as prefixes."""
    end = r"(?!\w)" if any(c.isdigit() for c in wording) else ""
    return re.search(rf"(?<!\w){re.escape(value)}{end}", said) is not None
