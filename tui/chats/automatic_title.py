"""Derives a chat title from its first prompt, without a model."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from itertools import accumulate

MAX_TITLE = 60
"""Width in cells; wide characters take two."""
_LOOKED_AT = 4000
"""Characters of a prompt that are examined."""

_FENCE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_IMAGE = re.compile(r"!\[([^\]\n]{0,200})\]\([^)\n]{0,500}\)")
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\([^)\n]{0,500}\)")
_URL = re.compile(r"(?:https?://|www\.)\S{1,2000}")
_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|\d{1,3}[.)][ \t]+)")
_EMPHASIS = re.compile(r"(\*\*|__|`)(?=\S)(.{1,200}?)(?<=\S)\1")
_SENTENCE_END = re.compile(r"[.!?…]+(?=[\s\"'”’)\]]|\Z)|[。！？]")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|dr|mr|mrs|ms|st|no|z\.B|bzw|ca)|\b\w)\Z", re.I
)

_GREETING = re.compile(
    r"(?:(?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day)|dear"
    r"|hallo|guten (?:tag|morgen|abend)|servus|moin|bonjour|bonsoir|salut|hola|buenos días"
    r"|buenas tardes|ciao|buongiorno|olá|hej|привет|здравствуйте)\b"
    r"(?: (?:there|all|everyone|again|claude|chatgpt|gpt|assistant|ai|zusammen))*"
    r"|こんにちは|こんばんは|你好|您好|안녕하세요)"
    r"[\s,.!:;–—，。！、-]*",
    re.I,
)
_COURTESY = re.compile(
    r"(?:(?:and |so |ok(?:ay)?,? |well,? )?"
    r"(?:please|pls|kindly"
    r"|(?:can|could|would|will) you(?: please| kindly)?(?: (?:help me(?: to)?|tell me|show me))?"
    r"|would you mind|i(?:'d| would) (?:like|love) (?:you )?to(?: know)?|i (?:want|need) you to"
    r"|i (?:need|want) help (?:with|to)|i was wondering(?: if you could)?|help me(?: to)?"
    r"|do you know|tell me|bitte|kannst du(?: mir)?(?: bitte)?|könntest du(?: mir)?(?: bitte)?"
    r"|s'il (?:te|vous) pla[iî]t|peux-tu|pouvez-vous|por favor|puedes|請|请(?:问)?)"
    r"(?![\w'’])|请(?:问)?|請(?:問)?)[\s,.:;!–—-]*",
    re.I,
)
_TRAILING = re.compile(
    r"[\s,;:–—-]+\Z|(?:[\s,]+(?:please|pls|thanks|thank you|bitte))+[.!]*\Z", re.I
)


def automatic_title(prompt: str) -> str:
    """Return the first real sentence or question of a prompt, without greeting, code or address.

    At most `MAX_TITLE` cells, cut between words if possible; "" for a prompt without letters or
    digits.
    """
    text = prompt[:_LOOKED_AT]
    prose = _prose(text)
    said = [title for title in map(_trim, _sentences(prose)) if _says_something(title)]
    # A heading like "Task" is no title if a sentence follows.
    first = next((title for title in said if " " in title or not title.isascii()), None)
    title = first or next(iter(said), "")
    if title:
        return shorten(title[:1].upper() + title[1:], MAX_TITLE)
    # The prompt is only a greeting, code or an address: use that.
    return shorten(_first_line(prose) or _first_line(text), MAX_TITLE)


def shorten(text: str, cells: int) -> str:
    """Return `text` in at most `cells` cells, with an ellipsis if it was cut."""
    if len(text) * 2 <= cells or _width(text) <= cells:
        return text
    end = bisect_left(list(accumulate(map(_width, text))), cells)
    kept = text[:end]
    space = kept.rfind(" ")
    if not text[end : end + 1].isspace() and space > end // 2:
        kept = kept[:space]
    return kept.rstrip(" ,;:–—-") + "…"


def _prose(text: str) -> str:
    text = _FENCE.sub("\n", text)
    text = _IMAGE.sub(r"\1", text)
    text = _LINK.sub(r"\1", text)
    text = _URL.sub(" ", text)
    text = _TAG.sub(" ", text)
    lines = (_EMPHASIS.sub(r"\2", _MARK.sub("", line)) for line in text.splitlines())
    return "\n".join(
        line if line.isascii() and line.isprintable() else "".join(filter(_shown, line))
        for line in lines
    )


def _shown(character: str) -> bool:
    return character == "\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")


def _sentences(text: str) -> list[str]:
    sentences: list[str] = []
    for line in text.splitlines():
        start = 0
        for match in _SENTENCE_END.finditer(line):
            before = line[start : match.start()]
            if match[0] == "." and _ABBREVIATION.search(before):
                continue
            # Question and exclamation marks belong to the sentence; a full stop does not.
            mark = match[0][:1] if match[0][0] in "?？" else ""
            sentences.append(before + mark)
            start = match.end()
        sentences.append(line[start:])
    return sentences


def _trim(sentence: str) -> str:
    text = " ".join(sentence.split())
    while True:
        shorter = text
        for opening in (_GREETING, _COURTESY):
            match = opening.match(shorter)
            if match is not None and match.end() > 0:
                shorter = shorter[match.end() :]
        shorter = _TRAILING.sub("", shorter).strip("\"'“”‘’*_ ")
        if shorter == text:
            return text
        text = shorter


def _says_something(text: str) -> bool:
    """Return whether it is more than a sign or a single letter."""
    letters = [character for character in text if character.isalnum()]
    return len(letters) > 1 or any(ord(character) > 0x2E80 for character in letters)


def _first_line(text: str) -> str:
    """Return the first line with content, ignoring fences."""
    for line in text.splitlines():
        if not line.lstrip().startswith(("```", "~~~")) and _says_something(line):
            return " ".join("".join(filter(_shown, line)).split())
    return ""


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
