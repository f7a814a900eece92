"""Hostile templates are rejected within bounded time and memory, and without side effects."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.errors import RequestRejected
from ingle.backends.text.templates import chat_template, template_renderer
from ingle.backends.text.templates.chat_template import ChatTemplate
from ingle.backends.text.templates.template_errors import TemplateError
from ingle.backends.text.templates.template_renderer import RenderLimits

MakeTemplate = Callable[..., ChatTemplate]

HI = [ChatMessage("user", "Hi")]
SHORT_LIMITS = RenderLimits(seconds=0.5)
LONG_LIMITS = RenderLimits(seconds=30)

# MARK stands for a path that must not be created.
ESCAPES = {
    "class": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "subclass walk": (
        "{% for x in ().__class__.__base__.__subclasses__() %}{% if 'warning' in x.__name__ %}"
        "{{ x()._module.__builtins__['__import__']('os').popen('touch MARK').read() }}"
        "{% endif %}{% endfor %}"
    ),
    "attr filter": "{{ ''|attr('__class__')|attr('__mro__')|last|attr('__subclasses__')() }}",
    "attr filter, spelled": ("{{ ''|attr(['_']*2|join ~ 'class' ~ ['_']*2|join)|attr('mro')() }}"),
    "subscript": "{{ ''['__class__']['__mro__'] }}",
    "template reference": "{{ self._TemplateReference__context.environment.from_string('x') }}",
    "self globals": "{{ self.__init__.__globals__.__builtins__.open('MARK', 'w') }}",
    "cycler": "{{ cycler.__init__.__globals__.os.system('touch MARK') }}",
    "joiner": "{{ joiner.__init__.__globals__.os.popen('touch MARK') }}",
    "lipsum": "{{ lipsum.__globals__['os'].popen('touch MARK').read() }}",
    "namespace": "{{ namespace.__init__.__globals__.sys.modules.os.system('touch MARK') }}",
    "our own function": "{{ raise_exception.__globals__.__builtins__.open('MARK', 'w') }}",
    "our own filter": "{{ strftime_now.__globals__.json.codecs.open('MARK', 'w') }}",
    "undefined": "{{ nobody.__class__.__init__.__globals__.os.system('touch MARK') }}",
    "undefined method": "{{ nobody.__init__.__globals__.__builtins__.exec('1') }}",
    "dict": "{{ dict.mro()[1].__subclasses__() }}",
    "range": "{{ range.__self__.eval('1') }}",
    "import": "{% import 'os' as os %}{{ os.system('touch MARK') }}",
    "include": "{% include '/etc/passwd' %}",
    "extends": "{% extends '/etc/passwd' %}",
    "debug": "{% debug %}",
    "do": "{% do messages.append(1) %}",
    "changed messages": "{{ messages.append(messages[0]) }}",
    "cleared message": "{{ messages[0].clear() }}",
    "format": "{{ '{0.__class__.__mro__}'.format(messages).__len__() }}",
    "format_map": "{{ '{m.__class__.__mro__[1]}'.format_map({'m': messages}) }}",
    # CVE-2024-56326: a stored reference to str.format
    "stored format": (
        "{% set ns = namespace() %}{% set ns.run = '{0.__call__.__builtins__[open]}'.format %}"
        "{{ ns.run(raise_exception.nothing.more) }}"
    ),
    "mapped format": "{{ ['{0.__class__.__mro__}']|map('attr', 'format')|first()(1) }}",
    # CVE-2025-27516: str.format through |attr
    "format by attr": "{{ ('{0.__call__.__builtins__[__import__]}'|attr('format'))(range).x.y }}",
    "generator": "{% set g = (messages|map('upper')) %}{{ g.gi_frame.f_back.f_globals }}",
    "frames": "{{ (range(3)|select).gi_frame.f_builtins.open('MARK', 'w') }}",
    "groupby": "{{ messages|groupby('__class__.__mro__.0') }}{{ ''.__class__.x.y }}",
    "call filter": "{{ ['touch MARK']|map('system')|list }}",
    "macro": "{% macro m() %}{% endmacro %}{{ m.__init__.__globals__.os.system('touch MARK') }}",
    "macro internals": "{% macro m() %}{% endmacro %}{{ m._func.__globals__.x }}",
    "caller": (
        "{% macro m() %}{{ caller.__call__.__globals__.x }}{% endmacro %}"
        "{% call m() %}{% endcall %}"
    ),
    "loop": "{% for x in messages %}{{ loop.__init__.__globals__.x }}{% endfor %}",
    "loop internals": "{% for x in messages %}{{ loop._iterator.x.y }}{% endfor %}",
    "import function": "{{ __import__('os').system('touch MARK') }}",
    "builtins": "{{ __builtins__.open('MARK', 'w') }}",
}

MEMORY_HUNGRY = {
    "repeat": "{{ 'a'*10**9 }}",
    "repeat at run time": "{{ (messages[0].content)*10**9 }}",
    "list": "{{ ([0]*10**9)|length }}",
    "center": "{{ 'x'|center(10**9) }}",
    "percent": "{{ '%1000000000d'|format(1) }}",
    "percent operator": "{{ '%1000000000d' % 1 }}",
    "brace": "{{ '{:1000000000}'.format('x') }}",
    "ljust": "{{ 'x'.ljust(10**9) }}",
    "zfill": "{{ 'x'.zfill(10**9) }}",
    "expandtabs": "{{ '\\t'.expandtabs(10**9) }}",
    "replace": "{{ ('a'*10**5).replace('a', 'b'*10**5) }}",
    "indent": "{{ 'a\\nb'|indent(10**9) }}",
    "join": "{{ range(99999)|join('x'*10**5) }}",
    "batch": "{{ [1]|batch(10**9, 0)|list|length }}",
    "doubling": (
        "{% set ns = namespace(s='abcdefgh') %}{% for i in range(60) %}"
        "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s|length }}"
    ),
    "doubling list": (
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}"
        "{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s|length }}"
    ),
    "macro output": (
        "{% macro m() %}{% for i in range(99999) %}{{ 'x'*10**5 }}{% endfor %}{% endmacro %}"
        "{{ m()|length }}"
    ),
    "set block": "{% set x %}{% for i in range(99999) %}{{ 'x'*10**5 }}{% endfor %}{% endset %}",
    "big range": "{{ range(10**9)|list }}",
    "output": "{% for i in range(99999) %}{{ 'x'*1000 }}{% endfor %}",
    "output of one expression": "{{ 'x' * (5 * 2**20) }}",
    "shout": "{{ raise_exception('x' * 10**9) }}",
    "time format": "{{ strftime_now('%c' * 10**7) }}",
    "time width": "{{ strftime_now('%1000000000Y' * 20).x.y }}",
    "bytes": "{{ 'x'.encode('utf-32').hex().encode().join([1].__mul__(9)) }}",
}

HANGING = {
    "nested ranges": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "power": "{{ 10**(9**9) }}",
    "power at run time": "{{ (messages|length + 9)**(10**8 + messages|length) }}",
    "digits": "{{ '7'*4000|int**9999999 }}{{ (7**9999999)|string }}",
    "sort": "{% for a in range(9999) %}{{ range(99999)|sort(reverse=true)|last }}{% endfor %}",
    "sum": "{% for a in range(99999) %}{% set x = range(99999)|sum %}{% endfor %}",
    "search": "{% for a in range(99999) %}{{ 'x' in messages[0].content*10**7 }}{% endfor %}",
    "urlize": (
        "{% for a in range(99999) %}{{ ('http://a.b/' * 999 ~ messages)|urlize|length }}"
        "{% endfor %}"
    ),
    "striptags": (
        "{% for a in range(9999) %}{{ ('<' * 99999 ~ messages)|striptags|length }}{% endfor %}"
    ),
}

RECURSIVE = {
    "macro": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "two macros": (
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"
    ),
    "loop": "{% for x in messages recursive %}{{ loop(messages) }}{% endfor %}",
    "block": "{% block b %}{{ self.b() }}{% endblock %}",
    "parentheses": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
    "lists": "{{ " + "[" * 5_000 + "]" * 5_000 + " }}",
    "ifs": "{% if 1 %}" * 5_000 + "{% endif %}" * 5_000,
    "fors": "{% for x in messages %}" * 100 + "{% endfor %}" * 100,
    "not": "{{ " + "not " * 50_000 + "1 }}",
    "sum": "{{ " + "1+" * 100_000 + "1 }}",
    "filters": "{{ 1" + "|abs" * 50_000 + " }}",
    "attributes": "{{ a" + ".a" * 50_000 + " }}",
}


def rejected(template: ChatTemplate) -> RequestRejected:
    """The rejection that every attack must cause."""
    with pytest.raises(RequestRejected) as caught:
        template.render(HI)
    error = caught.value
    assert error.message.isprintable()
    assert len(error.message) < 1000
    return error


@contextmanager
def bounded_memory(template: ChatTemplate, limit: int) -> Generator[None]:
    """Assert that neither the helper nor this process uses more than `limit` additional bytes."""
    here = psutil.Process()
    before = here.memory_info().rss
    peak = 0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.005):
            try:
                if template.pid is not None:
                    peak = max(peak, psutil.Process(template.pid).memory_info().rss)
            except psutil.Error:
                continue  # it was just killed

    thread = threading.Thread(target=watch)
    thread.start()
    yield
    done.set()
    thread.join()
    assert peak < limit
    assert here.memory_info().rss - before < limit


def mostly_slow(sources: dict[str, str]) -> list[Any]:
    """All sources as parameters, three in four marked slow, since each starts a process or uses up
    a limit."""
    return [
        pytest.param(source, id=name, marks=pytest.mark.slow if place % 4 else ())
        for place, (name, source) in enumerate(sources.items())
    ]


@pytest.mark.parametrize("source", mostly_slow(ESCAPES))
def test_sandbox_escapes_are_rejected(
    make_template: MakeTemplate, tmp_path: Path, source: str
) -> None:
    mark = tmp_path / "mark"
    error = rejected(make_template(source.replace("MARK", str(mark))))
    assert error.code == "template_failed"
    assert not mark.exists()


@pytest.mark.parametrize("source", mostly_slow(MEMORY_HUNGRY))
def test_memory_exhaustion_is_rejected(make_template: MakeTemplate, source: str) -> None:
    template = make_template(source, limits=RenderLimits())
    with bounded_memory(template, 700 * 2**20):
        rejected(template)


@pytest.mark.parametrize("source", mostly_slow(HANGING))
def test_hanging_templates_time_out(make_template: MakeTemplate, source: str) -> None:
    template = make_template(source, limits=SHORT_LIMITS)
    start = time.monotonic()
    assert rejected(template).code == "template_failed"
    assert time.monotonic() - start < 60  # an upper bound, not a measurement


@pytest.mark.parametrize("source", mostly_slow(RECURSIVE))
def test_endless_recursion_is_rejected(make_template: MakeTemplate, source: str) -> None:
    rejected(make_template(source, limits=RenderLimits()))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ 'a'*10**9 }}", "MiB of memory"),
        pytest.param(HANGING["nested ranges"], "took too long", marks=pytest.mark.slow),
        (MEMORY_HUNGRY["output"], "far more text"),
        (RECURSIVE["macro"], "without end"),
        (ESCAPES["class"], "unsafe"),
    ],
)
def test_error_message_contains_the_cause(
    make_template: MakeTemplate, source: str, message: str
) -> None:
    error = rejected(make_template(source, limits=RenderLimits()))
    assert message in error.message
    assert isinstance(error, TemplateError)
    assert error.hint is not None
    assert "/v1/completions" in error.hint


def test_renders_succeed_after_a_rejected_one(make_template: MakeTemplate) -> None:
    template = make_template(
        "{% set words = messages[0].content %}"
        "{% if words == 'attack' %}{{ 'a'*10**9 }}{% endif %}{{ words }}"
    )
    for _ in range(3):
        assert template.render(HI) == "Hi"
        with pytest.raises(TemplateError, match="memory"):
            template.render([ChatMessage("user", "attack")])
    assert template.render(HI) == "Hi"


@pytest.mark.parametrize(("remembered", "helpers"), [(60.0, 1), (0.0, 2)])
def test_hanging_template_is_remembered_and_not_retried(
    make_template: MakeTemplate,
    monkeypatch: pytest.MonkeyPatch,
    remembered: float,
    helpers: int,
) -> None:
    started: list[object] = []
    start = subprocess.Popen

    def counting_popen(*args: Any, **kwargs: Any) -> Any:
        started.append(process := start(*args, **kwargs))
        return process

    monkeypatch.setattr(template_renderer.subprocess, "Popen", counting_popen)
    monkeypatch.setattr(chat_template, "HOSTILE_SECONDS", remembered)
    template = make_template(HANGING["nested ranges"], limits=SHORT_LIMITS)
    assert rejected(template).message == rejected(template).message
    assert len(started) == helpers


def test_lone_surrogate_from_the_template_is_rejected(make_template: MakeTemplate) -> None:
    assert "surrogate" in rejected(make_template("{{ '\\ud800' }}")).message
    assert "template holds a lone surrogate" in rejected(make_template("\ud800")).message


def test_output_limit_scales_with_the_input(make_template: MakeTemplate) -> None:
    limits = replace(LONG_LIMITS, characters=1000)
    template = make_template("{{ messages[0].content * 4 }}", limits=limits)
    assert len(template.render([ChatMessage("user", "x" * 1000)])) == 4000
    too_long = make_template("{{ messages[0].content * 9 }}", limits=limits)
    with pytest.raises(TemplateError, match="far more text"):
        too_long.render([ChatMessage("user", "x" * 1000)])


class TestWithoutKernelLimits:
    """Without a kernel memory limit, the parent process monitors the helper's memory."""

    LIMITS = RenderLimits(seconds=10, memory=128 * 2**20, kernel_memory=False)

    @pytest.mark.parametrize("name", ["doubling list", "set block", "repeat"])
    def test_memory_limit(self, make_template: MakeTemplate, name: str) -> None:
        template = make_template(MEMORY_HUNGRY[name], limits=self.LIMITS)
        # The growth between two samples depends on the machine, but stays far below the requested
        # gigabytes.
        with bounded_memory(template, 1500 * 2**20):
            rejected(template)

    def test_time_limit(self, make_template: MakeTemplate) -> None:
        limits = replace(self.LIMITS, seconds=0.5)
        assert "too long" in rejected(make_template(HANGING["power"], limits=limits)).message

    def test_good_templates_render(self, make_template: MakeTemplate) -> None:
        template = make_template("{{ messages[0].content }}", limits=self.LIMITS)
        assert template.render(HI) == "Hi"


@pytest.mark.skipif(sys.platform != "linux", reason="sends signals to a helper")
def test_suspended_helper_process_is_replaced(make_template: MakeTemplate) -> None:
    template = make_template("{{ messages[0].content }}", limits=RenderLimits(wall_seconds=1))
    assert template.render(HI) == "Hi"
    assert template.pid is not None
    psutil.Process(template.pid).suspend()
    with pytest.raises(TemplateError, match="too long"):
        # Larger than a pipe's buffer, so that the write blocks too.
        template.render([ChatMessage("user", "x" * 2**20)])
    assert template.render(HI) == "Hi"


@pytest.mark.skipif(sys.platform != "linux", reason="sends signals to a helper")
def test_time_without_the_processor_does_not_count(make_template: MakeTemplate) -> None:
    template = make_template("{{ messages[0].content }}", limits=RenderLimits(seconds=0.2))
    assert template.render(HI) == "Hi"
    assert template.pid is not None
    helper = psutil.Process(template.pid)
    helper.suspend()
    resume = threading.Timer(0.4, helper.resume)
    resume.start()
    assert template.render(HI) == "Hi"
    assert template.pid == helper.pid
    resume.join()


def test_jinja_is_imported_in_one_module_only() -> None:
    package = Path(__file__).parents[4]
    users = {
        path.relative_to(package).as_posix()
        for folder in ("backends", "daemon", "kernels", "models", "tui")
        for path in (package / folder).rglob("*.py")
        if "import jinja2" in (text := path.read_text()) or "from jinja2" in text
    }
    assert users == {"backends/text/templates/template_environment.py"}
