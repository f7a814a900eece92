"""Reads a Modelfile, in which Ollama's users describe a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .command_errors import UsageError

_LINE = re.compile(r"\s*(?P<word>[A-Za-z]+)[ \t]+(?P<rest>.*)")
_QUOTES = '"""'
_TEXTS = {"system": "system", "template": "template", "license": "license"}
_ROLES = ("system", "user", "assistant")
_LISTS = ("stop",)


def read_modelfile(text: str, name: str, folder: Path) -> dict[str, Any]:
    """Return the body of `POST /api/create`: `from`, `parameters`, `system`, `template`, ….

    `name` is the file's for messages; a path in it counts from `folder`. Raises `UsageError`.
    """
    body: dict[str, Any] = {}
    for number, word, value in _instructions(text, name):
        where = f"Line {number} of {name}"
        if word == "from":
            body["from"] = _source(value, folder)
        elif word == "parameter":
            _add_parameter(body.setdefault("parameters", {}), value, where)
        elif word == "message":
            role, _, content = value.partition(" ")
            if role not in _ROLES:
                raise UsageError(
                    f"{where} is a message of {role!r}.", f"Roles are {', '.join(_ROLES)}."
                )
            content = _unquoted(content.strip())
            body.setdefault("messages", []).append({"role": role, "content": content})
        elif word in _TEXTS:
            body[_TEXTS[word]] = value
        else:
            raise UsageError(
                f"{where} has the instruction {word.upper()}, which ingle does not know.",
                "It reads FROM, PARAMETER, SYSTEM, TEMPLATE, MESSAGE and LICENSE.",
            )
    if "from" not in body:
        raise UsageError(
            f"{name} has no FROM.", "FROM names the model, or the file, to start with."
        )
    return body


def _instructions(text: str, name: str) -> list[tuple[int, str, str]]:
    """Return line number, instruction in lower case and value."""
    found: list[tuple[int, str, str]] = []
    lines = enumerate(text.splitlines(), 1)
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UsageError(
                f"Line {number} of {name} is no instruction.",
                'Texts of several lines stand between """ and """.',
            )
        word, value = match["word"].lower(), match["rest"].strip()
        head, quotes, rest = value.partition(_QUOTES)
        if quotes and word != "parameter":
            while _QUOTES not in rest:
                after = next(lines, None)
                if after is None:
                    raise UsageError(f'The """ in line {number} of {name} is not closed.')
                rest = f"{rest}\n{after[1]}"
            value = head + rest.partition(_QUOTES)[0]
        elif word != "message":
            value = _unquoted(value)
        found.append((number, word, value))
    return found


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] == '"'
    return value[1:-1] if quoted else value


def _source(value: str, folder: Path) -> str:
    path = Path(value).expanduser()
    is_path = value.startswith((".", "/", "~")) or value.lower().endswith(".gguf")
    return str((folder / path).absolute()) if is_path else value


def _add_parameter(parameters: dict[str, Any], value: str, where: str) -> None:
    key, _, text = value.partition(" ")
    key, text = key.lower(), text.strip()
    if not text:
        raise UsageError(f"{where} gives the parameter {key!r} no value.")
    if key in _LISTS:
        parameters.setdefault(key, []).append(_unquoted(text))
    else:
        parameters[key] = _number(_unquoted(text))


def _number(text: str) -> int | float | bool | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
