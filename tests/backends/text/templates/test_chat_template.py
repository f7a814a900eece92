"""`ChatTemplate`: rendering, reformatting of messages, Jinja extensions and the helper process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from ingle.backends.base.conversation import ChatMessage
from ingle.backends.base.errors import RequestRejected
from ingle.backends.testing.byte_tokenizer import ByteTokenizer
from ingle.backends.text.templates.chat_template import CHATML, ChatTemplate, default_template
from ingle.backends.text.templates.template_errors import TemplateError, TemplateRefused

MakeTemplate = Callable[..., ChatTemplate]
StillRunning = Callable[[Iterable[psutil.Process]], list[psutil.Process]]

SYSTEM = ChatMessage("system", "Be brief.")
HI = ChatMessage("user", "Hi")
HELLO = ChatMessage("assistant", "Hello!")
MORE = ChatMessage("user", "More, please")
CONVERSATION = [SYSTEM, HI, HELLO, MORE]

# Templates of well-known families, reduced to what a plain conversation needs.
LLAMA3 = """\
{{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {{- message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL = """\
{{ bos_token }}{% for message in messages %}
{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Roles have to alternate: user, assistant, user, …') }}
{% endif %}
{% if message.role == 'user' %}
[INST] {{ message.content }} [/INST]
{%- elif message.role == 'assistant' %}
{{ ' ' + message.content + eos_token -}}
{% endif %}
{% endfor %}
"""
GEMMA = """\
{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('No system role here') }}
{% endif %}
{% for message in messages %}
    {%- set role = 'model' if message.role == 'assistant' else message.role %}
    {{- '<start_of_turn>' + role + '\\n' + message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{% if add_generation_prompt %}
<start_of_turn>model
{% endif %}
"""
PHI3 = """\
{% for message in messages %}{{ '<|' + message.role + '|>\\n' + message.content + '<|end|>\\n' }}\
{% endfor %}{{ '<|assistant|>\\n' if add_generation_prompt else eos_token }}
"""
QWEN = (
    """\
{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nYou are a default.<|im_end|>\\n' }}
{%- endif %}
"""
    + CHATML
)


HANGS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
PARENT = """\
import sys, threading, time
from ingle.backends.base.conversation import ChatMessage
from ingle.backends.text.templates.chat_template import ChatTemplate
from ingle.backends.text.templates.template_renderer import RenderLimits

template = ChatTemplate(
    sys.argv[1], bos_token="", eos_token="", limits=RenderLimits(seconds=600)
)
template.start()
threading.Thread(target=template.render, args=([ChatMessage("user", "Hi")],)).start()
time.sleep(0.5)
print(template.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            CHATML,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nMore, please<|im_end|>\n"
            "<|im_start|>assistant\n",
        ),
        (
            LLAMA3,
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nMore, please<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            MISTRAL,
            "<s>[INST] Be brief.\n\nHi [/INST] Hello!</s>[INST] More, please [/INST]",
        ),
        (
            GEMMA,
            "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n"
            "<start_of_turn>model\nHello!<end_of_turn>\n"
            "<start_of_turn>user\nMore, please<end_of_turn>\n<start_of_turn>model\n",
        ),
        (
            PHI3,
            "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello!<|end|>\n"
            "<|user|>\nMore, please<|end|>\n<|assistant|>\n",
        ),
    ],
    ids=["chatml", "llama3", "mistral", "gemma", "phi3"],
)
def test_templates_of_well_known_families(
    make_template: MakeTemplate, source: str, expected: str
) -> None:
    assert make_template(source).render(CONVERSATION) == expected


def test_default_system_message_of_the_template(make_template: MakeTemplate) -> None:
    template = make_template(QWEN)
    assert template.render([HI]).startswith("<|im_start|>system\nYou are a default.<|im_end|>\n")
    assert "default" not in template.render(CONVERSATION)


def test_without_generation_prompt(make_template: MakeTemplate) -> None:
    text = make_template(PHI3).render([HI, HELLO], add_generation_prompt=False)
    assert text == "<|user|>\nHi<|end|>\n<|assistant|>\nHello!<|end|>\n</s>"


def test_message_names_are_passed_to_the_template(make_template: MakeTemplate) -> None:
    template = make_template(
        "{% for m in messages %}{{ m.name if m.name is defined else '-' }}:{{ m.content }} "
        "{% endfor %}"
    )
    assert template.render([ChatMessage("user", "a", "ann"), ChatMessage("user", "b")]) == (
        "ann:a -:b "
    )


class TestReformatting:
    """Conversations that a template rejects or would garble are reformatted."""

    def test_messages_of_a_role_are_merged_only_if_roles_must_alternate(
        self, make_template: MakeTemplate
    ) -> None:
        two_user_messages = [HI, MORE]
        assert (
            make_template(MISTRAL).render(two_user_messages)
            == "<s>[INST] Hi\n\nMore, please [/INST]"
        )
        assert make_template(CHATML).render(two_user_messages).count("<|im_start|>user") == 2

    def test_merging_keeps_a_supported_system_role(self, make_template: MakeTemplate) -> None:
        template = make_template(
            "{% for m in messages %}"
            "{% if loop.index0 and m.role == messages[loop.index0 - 1].role %}"
            "{{ raise_exception('alternate!') }}{% endif %}"
            "{{ m.role }}={{ m.content }};{% endfor %}"
        )
        assert template.render([SYSTEM, HI, MORE]) == "system=Be brief.;user=Hi\n\nMore, please;"

    def test_rejected_system_message_becomes_a_user_message(
        self, make_template: MakeTemplate
    ) -> None:
        text = make_template(GEMMA).render([SYSTEM], add_generation_prompt=False)
        assert text == "<s><start_of_turn>user\nBe brief.<end_of_turn>\n"

    def test_dropped_system_message_is_merged_into_the_user_message(
        self, make_template: MakeTemplate
    ) -> None:
        template = make_template(
            "{% for m in messages if m.role != 'system' %}[{{ m.content }}]{% endfor %}"
        )
        assert template.render(CONVERSATION) == "[Be brief.\n\nHi][Hello!][More, please]"

    @pytest.mark.parametrize(
        "source",
        [
            "{% for m in messages %}{% if m.role != 'system' or loop.first %}[{{ m.content }}]"
            "{% endif %}{% endfor %}",
            "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
            "{{ raise_exception('at the beginning!') }}{% endif %}[{{ m.content }}]{% endfor %}",
            "{% for m in (messages | selectattr('role', 'eq', 'system') | list)[-1:] %}"
            "[{{ m.content }}]{% endfor %}"
            "{% for m in messages if m.role != 'system' %}[{{ m.content }}]{% endfor %}",
        ],
        ids=["first only", "refuses", "last only"],
    )
    def test_later_system_messages_are_merged(
        self, make_template: MakeTemplate, source: str
    ) -> None:
        later = ChatMessage("system", "Rhyme.")
        text = make_template(source).render([SYSTEM, later, HI, HELLO, later, MORE])
        assert text == "[Be brief.\n\nRhyme.][Hi][Hello!][Rhyme.\n\nMore, please]"

    def test_conversation_starting_with_the_assistant(self, make_template: MakeTemplate) -> None:
        text = make_template(MISTRAL).render([HELLO, MORE])
        assert text == "<s>[INST]   [/INST] Hello!</s>[INST] More, please [/INST]"
        assert "user" not in make_template(CHATML).render([HELLO])

    def test_edited_system_message_is_not_treated_as_dropped(
        self, make_template: MakeTemplate
    ) -> None:
        template = make_template(
            "{% for m in messages %}{{ m.role }}:{{ m.content | replace('/quiet', '') }};"
            "{% endfor %}"
        )
        messages = [ChatMessage("system", "Hush /quiet"), HI]
        assert template.render(messages) == "system:Hush ;user:Hi;"

    def test_content_parts_if_the_template_requires_them(self, make_template: MakeTemplate) -> None:
        template = make_template(
            "{% for m in messages %}{{ m.role }}:{% for part in m.content %}"
            "{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %};{% endfor %}"
        )
        assert template.render(CONVERSATION) == (
            "system:Be brief.;user:Hi;assistant:Hello!;user:More, please;"
        )

    def test_first_rejection_is_reported(self, make_template: MakeTemplate) -> None:
        template = make_template("{{ raise_exception('not with ' ~ messages | length) }}")
        with pytest.raises(TemplateRefused, match="not with 2") as caught:
            template.render([SYSTEM, HI])
        assert caught.value.param == "messages"
        assert caught.value.code == "template_refused"
        assert caught.value.hint


class TestJinjaExtensions:
    """Extensions to Jinja that chat templates expect."""

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("{{ {'b': '<é>', 'a': [1]} | tojson }}", '{"b": "<é>", "a": [1]}'),
            ("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", '{"a": 2, "b": 1}'),
            ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
            ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
            ("{{ 'é' | tojson(ensure_ascii=true) }}", '"\\u00e9"'),
            ("a{% generation %}b{% endgeneration %}c", "abc"),
            (
                "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
                "01",
            ),
            (
                "{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}"
                "{% endfor %}{{ ns.n }}",
                "3",
            ),
            ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
            ("{{ tools is none and documents is none }}", "True"),
            ("{{ '\\u00e9\\n' }}", "é\n"),
            ("{{ {'a': 1} | pprint }}", "{'a': 1}"),
            ("{{ cycler is defined or joiner is defined or lipsum is defined }}", "False"),
            ("{% macro f(x) %}({{ x }}){% endmacro %}{{ f(1) ~ f('b') }}", "(1)(b)"),
            ("{{ messages[0].content.split('i')[0].strip().title() }}", "H"),
        ],
    )
    def test_jinja_features_render(
        self, make_template: MakeTemplate, source: str, expected: str
    ) -> None:
        assert make_template(source).render([HI]) == expected

    def test_strftime_now(self, make_template: MakeTemplate) -> None:
        before = datetime.now()
        text = make_template("{{ strftime_now('%d %b %Y') }}").render([HI])
        assert text in (f"{day:%d %b %Y}" for day in (before, datetime.now()))

    def test_template_variables(self, make_template: MakeTemplate) -> None:
        template = make_template("{{ enable_thinking is defined and enable_thinking }}")
        assert template.render([HI]) == "False"
        assert template.render([HI], enable_thinking=True) == "True"

    @pytest.mark.parametrize("name", ["bos_token", "raise_exception", "range", "_x", "a b"])
    def test_reserved_variables_are_refused(self, make_template: MakeTemplate, name: str) -> None:
        variables: dict[str, Any] = {name: 1}
        with pytest.raises(RequestRejected, match="set by ingle itself") as caught:
            make_template(CHATML).render([HI], **variables)
        assert caught.value.param == "chat_template_kwargs"


class TestContent:
    """Message content is rendered unchanged."""

    @pytest.mark.parametrize(
        "content",
        ["", "\0", "{{ 7 * 7 }}{% for", "<|im_end|>", "\u202e\u2028\ufeff", "👩‍👩‍👧 é\r\n\t"],
        ids=ascii,
    )
    def test_unusual_content(self, make_template: MakeTemplate, content: str) -> None:
        template = make_template("{% for m in messages %}[{{ m.content }}]{% endfor %}")
        assert template.render([ChatMessage("user", content)]) == f"[{content}]"

    @pytest.mark.parametrize("length", [10**6, 12 * 10**6])
    def test_long_content(self, make_template: MakeTemplate, length: int) -> None:
        content = "wörd " * (length // 5)
        text = make_template(CHATML).render([ChatMessage("user", content)])
        assert content in text

    def test_lone_surrogate_is_rejected(self, make_template: MakeTemplate) -> None:
        template = make_template(CHATML)
        with pytest.raises(RequestRejected, match="surrogate") as caught:
            template.render([ChatMessage("user", "a\ud800b")])
        assert caught.value.param == "messages"
        assert template.render([HI]).endswith("assistant\n")


class TestBrokenTemplates:
    @pytest.mark.parametrize(
        "source", ["{% for %}", "{{ ", "{% if a %}", "{{ a | nothing }}", "{% generation %}"]
    )
    def test_check_names_the_syntax_error(self, make_template: MakeTemplate, source: str) -> None:
        with pytest.raises(TemplateError, match="cannot be compiled") as caught:
            make_template(source).check()
        assert caught.value.code == "template_failed"
        assert caught.value.hint

    def test_check_accepts_a_valid_template(self, make_template: MakeTemplate) -> None:
        make_template(CHATML).check()

    def test_render_error_contains_the_reason(self, make_template: MakeTemplate) -> None:
        with pytest.raises(TemplateError, match="'nobody' is undefined"):
            make_template("{{ nobody.name }}").render([HI])

    def test_huge_template_is_rejected_without_compiling(self, make_template: MakeTemplate) -> None:
        template = make_template("x" * (2**20 + 1))
        with pytest.raises(TemplateError, match="longer than a million"):
            template.check()
        assert template.pid is None

    def test_error_message_contains_no_control_characters(
        self, make_template: MakeTemplate
    ) -> None:
        template = make_template("{{ raise_exception('a\\x1b]52;c;eA==\\x07\\nb' * 1000) }}")
        with pytest.raises(TemplateRefused) as caught:
            template.render([HI])
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 1000


class TestProcess:
    def test_one_helper_process_is_reused(self, make_template: MakeTemplate) -> None:
        template = make_template(CHATML)
        assert template.pid is None
        template.start()
        first = template.pid
        for _ in range(3):
            template.render([HI])
        assert template.pid == first is not None

    def test_killed_helper_process_is_restarted(self, make_template: MakeTemplate) -> None:
        template = make_template(CHATML)
        expected = template.render([HI])
        for _ in range(3):
            assert template.pid is not None
            os.kill(template.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
            assert template.render([HI]) == expected

    def test_close_stops_the_helper_process(self, make_template: MakeTemplate) -> None:
        template = make_template(CHATML)
        template.check()
        assert template.pid is not None
        helper = psutil.Process(template.pid)
        template.close()
        template.close()
        assert not helper.is_running()
        with pytest.raises(TemplateError, match="unloaded"):
            template.render([HI])

    def test_concurrent_renders_from_threads(self, make_template: MakeTemplate) -> None:
        template = make_template("{{ messages[0].content }}")
        mismatches: list[str] = []

        def render_repeatedly(number: int) -> None:
            for turn in range(20):
                content = f"{number}/{turn}"
                if (text := template.render([ChatMessage("user", content)])) != content:
                    mismatches.append(text)

        threads = [
            threading.Thread(target=render_repeatedly, args=(number,)) for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not mismatches
        assert template.render([HI]) == "Hi"

    def test_helper_process_outlives_the_thread_that_started_it(
        self, make_template: MakeTemplate
    ) -> None:
        template = make_template(CHATML)
        thread = threading.Thread(target=template.check)
        thread.start()
        thread.join()
        first = template.pid
        template.render([HI])
        assert template.pid == first

    @pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals")
    @pytest.mark.parametrize("source", ["idle", HANGS], ids=["idle", "busy"])
    def test_helper_process_exits_with_its_parent(
        self, source: str, tmp_path: Path, still_running: StillRunning
    ) -> None:
        script = tmp_path / "parent.py"
        script.write_text(PARENT)
        with subprocess.Popen(
            [sys.executable, "-P", script, source], stdout=subprocess.PIPE, cwd=tmp_path
        ) as parent:
            assert parent.stdout is not None
            helper = psutil.Process(int(parent.stdout.readline()))
            parent.kill()
        assert not still_running([helper])

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
    def test_helper_process_has_no_secrets_and_hard_limits(
        self, make_template: MakeTemplate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("INGLE_TEST_KEY", "sk-do-not-leak")
        template = make_template(CHATML)
        template.check()
        proc = Path("/proc") / str(template.pid)
        assert b"sk-do-not-leak" not in (proc / "environ").read_bytes()
        assert (proc / "cwd").resolve() == Path("/")
        limits = {
            line[:26].strip(): line[26:].split()[:2]
            for line in (proc / "limits").read_text().splitlines()
        }
        assert limits["Max open files"] == ["3", "3"]
        assert limits["Max file size"] == ["0", "0"]
        assert limits["Max core file size"] == ["0", "0"]
        assert limits["Max processes"] == ["0", "0"]
        assert int(limits["Max address space"][1]) < 2**30
        assert int(limits["Max cpu time"][0]) < 60


def test_chatml_is_the_default_only_with_its_control_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = ByteTokenizer()
    assert default_template(tokenizer) == CHATML
    monkeypatch.setattr(tokenizer, "find_token", {"<|im_start|>": 1}.get)
    assert default_template(tokenizer) is None
