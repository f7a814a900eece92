"""The sandboxed Jinja environment for chat templates, compatible with transformers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NoReturn, cast

from jinja2 import Template, nodes
from jinja2 import TemplateSyntaxError as TemplateSyntaxError  # for the module that renders
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST_TIME_FORMAT = 200
UNWANTED_GLOBALS = ("cycler", "joiner", "lipsum")


class TemplateRefusal(Exception):
    """The template called `raise_exception`; the text is its own."""


class OutputTooLong(Exception):
    """The template's output exceeds its limit."""


class GenerationTag(Extension):
    """`{% generation %}` marks the assistant's text, which matters in training only."""

    tags = {"generation"}  # noqa: RUF012  # Jinja declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse the body, in a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def compile_template(source: str) -> Template:
    """Return a sandboxed template; raises `TemplateSyntaxError`, or anything a hostile source
    provokes.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    for name in UNWANTED_GLOBALS:
        del environment.globals[name]
    environment.filters["tojson"] = _tojson
    functions = {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    return environment.from_string(source, globals=functions)


def render_template(template: Template, variables: Mapping[str, object], characters: int) -> str:
    """Return the template's text; raises `OutputTooLong` once it exceeds `characters`.

    Unlike `Template.render` it does not rewrite tracebacks, which are not shown.
    """
    pieces: list[str] = []
    room = characters
    for piece in template.root_render_func(template.new_context(dict(variables))):
        room -= len(piece)
        if room < 0:
            raise OutputTooLong
        pieces.append(piece)
    return "".join(pieces)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateRefusal(str(message))


def _strftime_now(time_format: str) -> str:
    if len(time_format) > LONGEST_TIME_FORMAT:
        raise ValueError("the time format is too long")
    return datetime.now().strftime(time_format)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON without Jinja's HTML escapes, as transformers writes tools into prompts."""
    return json.dumps(
        list(cast("Iterator[object]", value)) if isinstance(value, Iterator) else value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
