"""The text of an HTML page, in linear time whatever the page is."""

from __future__ import annotations

import html
import re

_HIDDEN = ("script", "style", "noscript", "template", "svg", "head", "title")
_BREAKS = (
    *("p", "br", "div", "li", "ul", "ol", "tr", "table", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("section", "article", "header", "footer", "pre", "blockquote", "dt", "dd", "hr", "main"),
    *("nav", "aside", "figure", "form", "option"),
)
_NAME = re.compile(r"/?([a-zA-Z][a-zA-Z0-9]{0,20})")
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACES = re.compile(r"[ \t\r\f\v\xa0]+")


def page_text(source: str, *, keeps_lines: bool = False) -> str:
    """Return the words of a page with its title first, without scripts and tags.

    With `keeps_lines` each word stays in its line of the source, and the title in its place.
    """
    lowered = source.translate(_LOWER)  # of the same length, unlike `lower`
    parts: list[str] = [] if keeps_lines else [_title(source, lowered)]
    hidden = _HIDDEN[:-2] if keeps_lines else _HIDDEN
    position = 0
    while (tag := source.find("<", position)) >= 0:
        parts.append(source[position:tag])
        if source.startswith("<!--", tag):
            end = source.find("-->", tag)
            position = end + 3 if end >= 0 else len(source)
            if keeps_lines:
                parts.append("\n" * source.count("\n", tag, position))
            continue
        found = _NAME.match(source, tag + 1)
        if found is None and source[tag + 1 : tag + 2] not in ("!", "?"):
            parts.append("<")
            position = tag + 1
            continue
        end = source.find(">", tag)
        if end < 0:
            position = len(source)
            break
        position = end + 1
        name = found[1].lower() if found is not None else ""
        if name in _BREAKS:
            parts.append(" " if keeps_lines else "\n")
        elif name in hidden and source[tag + 1] != "/":
            closing = lowered.find(f"</{name}", position)
            position = closing if closing >= 0 else len(source)
        if keeps_lines:
            parts.append("\n" * source.count("\n", tag, position))
    parts.append(source[position:])
    lines = (_SPACES.sub(" ", line).strip() for line in html.unescape("".join(parts)).split("\n"))
    return "\n".join(line for line in lines if line or keeps_lines)


def _title(source: str, lowered: str) -> str:
    start = lowered.find("<title")
    begin = source.find(">", start)
    end = lowered.find("</title", begin)
    return f"{source[begin + 1 : end]}\n" if 0 <= start < begin < end else ""
