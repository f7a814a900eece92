"""Hostile chat templates through a real daemon, which answers other requests meanwhile."""

from __future__ import annotations

import random
import struct
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import ReadFields

NUMBERS = ("10**9", "2**62", "999999999", "10**18", "-1", "0x7fffffff", "(10**9)")
TEXTS = ("'a'", "'é'", "messages[0].content", "'\\u202e'", "bos_token", "('x'*1000)")
NAMES = ("__class__", "__globals__", "__init__", "__mro__", "__builtins__", "__subclasses__")
REACHED = ("messages", "''", "namespace()", "raise_exception", "loop", "self", "range", "dict")
FILTERS = ("center", "indent", "wordwrap", "truncate", "batch", "slice", "join", "replace")


def hostile_template(source: random.Random) -> str:
    """A random template of one of many families."""
    number, text, name = source.choice(NUMBERS), source.choice(TEXTS), source.choice(NAMES)
    thing, depth = source.choice(REACHED), source.choice((50, 500, 3000))
    families = (
        f"{{{{ {text} * {number} }}}}",
        f"{{{{ ([{text}] * {number})|length }}}}",
        f"{{{{ '%{source.choice(('d', 's', 'x'))}'|format({number}) * {number} }}}}",
        f"{{{{ '%{source.randrange(10**8, 10**10)}d' % 1 }}}}",
        f"{{{{ '{{:{source.randrange(10**8, 10**10)}}}'.format({text}) }}}}",
        f"{{{{ {text}|{source.choice(FILTERS)}({number}) }}}}",
        f"{{{{ {thing}.{name}.{source.choice(NAMES)} }}}}",
        f"{{{{ {thing}|attr('{name}')|attr('{source.choice(NAMES)}') }}}}",
        f"{{{{ {thing}['{name}']['{source.choice(NAMES)}'] }}}}",
        f"{{{{ '{{0.{name}.{source.choice(NAMES)}}}'.format({thing}) }}}}{{{{ 1/0 }}}}",
        "{% for a in range(99999) %}" * 4 + "{% endfor %}" * 4,
        f"{{% for i in range({number}) %}}{{{{ 'x' * 9999 }}}}{{% endfor %}}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{{ " + "(" * depth + "1" + ")" * depth + " }}{{ 1/0 }}",
        "{{ " + "[" * depth + "]" * depth + "|tojson }}{{ 1/0 }}",
        "{% if 1 %}" * depth + "x" + "{% endif %}" * depth + "{{ 1/0 }}",
        "{{ 1" + " + 1" * depth + " }}{{ 1/0 }}",
        "{{ " + "not " * depth + "x }}{{ 1/0 }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(90) %}"
        "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s|length }}",
        f"{{% {source.choice(('include', 'import', 'extends', 'do', 'debug'))} '/etc/passwd' %}}",
        "{{ raise_exception('\x1b]52;c;AAAA\x07' * 9999) }}",
        "".join(chr(source.randrange(1, 0x2FFF)) for _ in range(200)) + "{{",
        "{{ " + "".join(source.choices("{}%|()[]'\"~.,:*abc ", k=200)),
    )
    return source.choice(families)


class TemplatedModel:
    """A small model whose chat template is overwritten in place."""

    ROOM = 1 << 16

    def __init__(self, path: Path, content: bytes, fields: Any) -> None:
        self._path = path
        first = next(f.offset for f in fields.fields if f.label == "a tensor's name length")
        key = b"tokenizer.chat_template"
        head = bytearray(content[:first])
        (keys,) = struct.unpack_from("<Q", head, 16)
        struct.pack_into("<Q", head, 16, keys + 1)
        head += struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, self.ROOM)
        self._at = len(head)
        head += b" " * self.ROOM + content[first : fields.end]
        data = content[-(-fields.end // 32) * 32 :]
        path.write_bytes(bytes(head) + bytes(-len(head) % 32) + data)
        self._number = 0

    @contextmanager
    def with_template(self, template: str) -> Generator[Path]:
        """The model with this template, under a new name."""
        self._number += 1
        name = self._path.with_name(f"{self._path.stem}-{self._number}.gguf")
        name.hardlink_to(self._path)
        with self._path.open("r+b") as file:
            file.seek(self._at)
            raw = template.encode("utf-8", "replace")
            room = self.ROOM - len(raw) - len("{##}")
            file.write(b"{#" + b"." * room + b"#}" + raw)
        yield name
        name.unlink()


class HealthChecker:
    """Requests the daemon's health continuously."""

    def __init__(self, daemon: Any) -> None:
        self._daemon = daemon
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._check)
        self.answers: list[int] = []

    def _check(self) -> None:
        while not self._done.wait(0.05):
            self.answers.append(self._daemon.http.get("/health", timeout=5).status_code)

    def __enter__(self) -> HealthChecker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def ask_all(daemon: Any, model: TemplatedModel, templates: list[str]) -> list[Any]:
    """The responses to all templates."""
    answers: list[Any] = []
    good = "{{ messages[0]['content'] }}"
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    with HealthChecker(daemon) as health:
        for number, template in enumerate(templates):
            with model.with_template(template) as path:
                answer = daemon.post("/v1/chat/completions", {**body, "model": str(path)})
                answers.append(answer)
                if answer.status != 200:
                    answer.assert_typed()
                    assert answer.message.isprintable(), answer
                assert answer.seconds < 30, (template[:200], answer)
                daemon.unload(path)
            if number % 20 == 0:
                with model.with_template(good) as path:
                    answer = daemon.post("/v1/chat/completions", {**body, "model": str(path)})
                    assert answer.status == 200, answer
                    daemon.unload(path)
    assert health.answers
    assert set(health.answers) == {200}
    daemon.assert_lives()
    return answers


@pytest.fixture
def model(
    tmp_path: Path, write_small_llama: Callable[..., Path], header_fields: ReadFields
) -> TemplatedModel:
    content = write_small_llama(tmp_path / "plain.gguf").read_bytes()
    return TemplatedModel(tmp_path / "templated.gguf", content, header_fields(content))


@pytest.mark.slow
def test_few_hostile_templates(target_daemon: Any, model: TemplatedModel) -> None:
    templates = ["{{ 'a' * 10**9 }}", "{{ ''.__class__.__mro__ }}{{ 1/0 }}", "{{ ("]
    assert {answer.status for answer in ask_all(target_daemon, model, templates)} <= {400, 422}


@pytest.mark.slow
def test_1000_hostile_templates(
    target_daemon: Any, model: TemplatedModel, tries: Callable[[int], None]
) -> None:
    source = random.Random(9)
    answers = ask_all(target_daemon, model, [hostile_template(source) for _ in range(1000)])
    seconds = sorted(answer.seconds for answer in answers)
    print(Counter(answer.status for answer in answers))
    print(f"half within {seconds[500]:.2f} s, 990 within {seconds[990]:.2f}, all {seconds[-1]:.2f}")
    assert len(answers) == 1000
    assert all(answer.status < 500 for answer in answers)
    tries(len(answers))
