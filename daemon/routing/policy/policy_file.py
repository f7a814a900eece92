"""Reads `policy.toml` strictly, so that a typing error never loosens the policy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import msgspec

from ingle.models.struct_preparation import prepared

from ...client.client_errors import UserError
from ..detectors.finding import FindingKind, Sensitivity
from .policy import Policy
from .policy_tables import AUTO, PolicyTable, RouteDefinition, RouteDefinitionTable
from .sensitivity_classes import DEFAULT_CLASSES

FILE_NAME = "policy.toml"
LARGEST = 2**20
"""Bytes; far more than any real policy."""

_STRICTNESS = ("allow", "ask", "redact", "uninspectable", "never")
"""By what may leave: `ask` releases the whole text after consent, `redact` never does."""

_ROUTE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)

_PLAIN_WORDS = {
    "bool | str": "true, false or a text",
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}

Table = TypeVar("Table", bound=msgspec.Struct)


class PolicyError(UserError):
    """An invalid policy; the message names the file and the line."""


def policy_template(words: Sequence[str] = ()) -> str:
    """Return the policy that `ingle route new` writes, with the user's own words.

    Comments show what can be changed.
    """
    folder = resources.files("ingle.daemon.routing.policy")
    text = (folder / "policy_template.toml").read_text("utf-8")
    # A string of JSON is one of TOML, too, but for the character 127.
    listed = json.dumps(list(words), ensure_ascii=False).replace("\x7f", "")
    return text.replace("words = []", f"words = {listed}", 1)


def load_policy(path: Path) -> Policy:
    """Return the policy in a file, or the safe default without one; raises `PolicyError`."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Policy()
    except OSError as error:
        raise PolicyError(
            f"{path} cannot be read: {error.strerror}.", "Make the file readable, or remove it."
        ) from error
    if len(content) > LARGEST:
        raise PolicyError(f"{path} is larger than 1 MiB.", "A policy is a page or two.")
    return parse_policy(content, str(path))


def parse_policy(content: bytes, name: str) -> Policy:
    """Return the policy in the content of a file of this name; raises `PolicyError`."""
    import tomllib

    try:
        text = content.decode()
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(
            f"{name} is not a TOML file: {error}.",
            "`ingle route new` writes a valid one; a line is a key, an equals sign and a value.",
        ) from error
    return _Reader(text, name).policy(data)


class _Reader:
    """Reads one file, with its text for line numbers."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    def policy(self, data: dict[str, Any]) -> Policy:
        table = self._table(data, PolicyTable, ())
        classes = {**DEFAULT_CLASSES, **self._classes(table.classes, ("classes",))}
        routes = {AUTO: RouteDefinition(name=AUTO)}
        for name in table.routes:
            path = ("routes", name)
            if not _ROUTE_NAME.fullmatch(name):
                raise self._error(
                    path,
                    f"'{name}' cannot be the name of a route",
                    "A name has lower-case letters, digits, dots, hyphens and underscores.",
                )
            route = self._table(
                cast(dict[str, Any], data["routes"][name]), RouteDefinitionTable, path
            )
            routes[name] = self._route(name, route, classes)
        return Policy(
            classes=MappingProxyType(classes),
            least_certainty=table.least_certainty,
            words=table.words,
            public_words=table.public_words,
            folders=table.folders,
            routes=MappingProxyType(routes),
        )

    def _route(
        self, name: str, table: RouteDefinitionTable, classes: Mapping[str, Sensitivity]
    ) -> RouteDefinition:
        path = ("routes", name)
        if table.cloud and not all(table.cloud.partition("/")):
            raise self._error(
                (*path, "cloud"),
                f"'{table.cloud}' is not a provider with a model",
                'Write "openai/gpt-5".',
            )
        own = self._classes(table.classes, (*path, "classes"))
        for key, wanted in own.items():
            looser = _STRICTNESS.index(wanted) < _STRICTNESS.index(classes[key])
            if looser and not table.override:
                raise self._error(
                    (*path, "classes", key),
                    f'\'{key} = "{wanted}"\' is less strict than the policy\'s "{classes[key]}"',
                    f"If that is intended, write `override = true` into [routes.{name}].",
                )
        return RouteDefinition(name=name, **msgspec.structs.asdict(table))

    def _classes(
        self, table: Mapping[str, Sensitivity], path: Sequence[str]
    ) -> dict[str, Sensitivity]:
        for key, wanted in table.items():
            if key not in DEFAULT_CLASSES:
                raise self._unknown((*path, key), key, DEFAULT_CLASSES, "a kind of finding")
            if key == FindingKind.UNINSPECTABLE and wanted not in (
                Sensitivity.NEVER,
                Sensitivity.UNINSPECTABLE,
            ):
                raise self._error(
                    (*path, key),
                    "what could not be scanned cannot be allowed to leave",
                    "Remove the line.",
                )
        return dict(table)

    def _table(self, data: dict[str, Any], kind: type[Table], path: Sequence[str]) -> Table:
        """Return the validated table; raises `PolicyError`."""
        fields = kind.__struct_fields__
        for key in data:
            if key not in fields:
                raise self._unknown((*path, key), key, fields, "a setting of a policy")
        try:
            # The routes are validated one by one, so that errors can name them.
            return msgspec.convert(
                {**data, "routes": _only_tables(data["routes"])} if "routes" in data else data,
                prepared(kind),
            )
        except msgspec.ValidationError as error:
            raise self._invalid(error, path, data) from None

    def _invalid(
        self, error: msgspec.ValidationError, path: Sequence[str], data: Mapping[str, Any]
    ) -> PolicyError:
        found = _AT.match(str(error))
        assert found is not None  # it matches everything
        steps = re.findall(r"\w+", found["path"] or "")
        if "[...]" in (found["path"] or ""):
            steps = [*steps[:1], *_wrong_class(data.get(steps[0]))]
        return self._error(
            (*path, *steps),
            _sentence(found["what"]),
            "`ingle route schema` prints what is allowed.",
        )

    def _unknown(
        self, path: Sequence[str], key: str, known: Iterable[str], what: str
    ) -> PolicyError:
        names = [str(name) for name in known]
        nearest = get_close_matches(key, names, n=1)
        hint = f"Did you mean '{nearest[0]}'?" if nearest else f"Allowed: {', '.join(names)}."
        return self._error(path, f"'{key}' is not {what}", hint)

    def _error(self, path: Sequence[str], what: str, hint: str) -> PolicyError:
        line = line_of(self._text, path)
        where = f"{self._name}, line {line}" if line else self._name
        key = f" ({'.'.join(path)})" if path else ""
        return PolicyError(f"{where}{key}: {what}.", hint)


def _only_tables(routes: Any) -> Any:
    """Return the routes emptied, so that msgspec's check of the whole file skips their keys."""
    if not isinstance(routes, dict):
        return routes
    tables = cast(dict[str, object], routes)
    nothing: dict[str, object] = {}
    return {name: nothing if isinstance(t, dict) else t for name, t in tables.items()}


def _wrong_class(table: Any) -> list[str]:
    """Return the key whose value is not a class; msgspec does not report which it was."""
    words = [*Sensitivity]
    if not isinstance(table, dict):
        return []
    wrong = [key for key, value in cast(dict[str, Any], table).items() if value not in words]
    return wrong[:1]


def _sentence(message: str) -> str:
    """Return msgspec's message as the end of a sentence."""
    plain = message.rstrip(".")
    for word, plainly in _PLAIN_WORDS.items():
        plain = plain.replace(f"`{word}`", plainly)
    return plain[:1].lower() + plain[1:]


_TABLE = re.compile(r"^\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_STEP = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Return the line number, from 1, that sets the key or opens the table at this path.

    For a key inside an inline table it is the line of the nearest enclosing key. The text must be
    valid TOML; a line of a multi-line string may be mistaken for a key.
    """
    best: tuple[int, int] | None = None
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = _steps(header[1])
            found = table
        elif key := _KEY.match(line):
            found = table + _steps(key[1])
        else:
            continue
        if found == tuple(path[: len(found)]) and (best is None or len(found) > best[0]):
            best = (len(found), number)
    return best[1] if best else None


def _steps(dotted: str) -> tuple[str, ...]:
    return tuple(step.strip("\"'") for step in _STEP.findall(dotted))
