"""Tools, tool calls and results in chat templates of various kinds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ingle.backends.base.conversation import ChatMessage, Tool, ToolCall
from ingle.backends.base.errors import RequestRejected
from ingle.backends.text.templates.chat_template import CHATML, ChatTemplate
from ingle.backends.text.templates.template_errors import TemplateRefused
from ingle.backends.text.templates.tool_messages import tool_instructions

MakeTemplate = Callable[..., ChatTemplate]

TOOLS = [
    Tool("look_up", "Finds it.", '{"type":"object","properties":{"place":{"type":"string"}}}'),
    Tool("note", "Notes it."),
]
CALLS = [
    ToolCall("call_1", "look_up", '{"place":"Rome"}'),
    ToolCall("call_2", "note", '{"text":"Rain"}'),
]
CALLED = [
    ChatMessage("system", "Be brief."),
    ChatMessage("user", "Hi"),
    ChatMessage("assistant", "Let me see.", tool_calls=CALLS),
    ChatMessage("tool", "sunny", tool_call_id="call_1"),
    ChatMessage("tool", "done", tool_call_id="call_2"),
]
MORE = ChatMessage("user", "More")

TOOLS_PART = "{% for t in tools or [] %}{{ t.function | tojson }};{% endfor %}"
MESSAGES_PART = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}[CALL {{ c.function.name }} ARGUMENTS]{% endfor %}"
    "{% if m.role == 'tool' %} for {{ m.tool_call_id }} of {{ m.name }}{% endif %};{% endfor %}"
)


def template(arguments: str = "{{ c.function.arguments | tojson }}", before: str = "") -> str:
    return before + TOOLS_PART + MESSAGES_PART.replace("ARGUMENTS", arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        "{{ c.function.arguments | tojson }}",
        "{{ c.function.arguments }}",
        "{{ '' + c.function.arguments }}",
        "{% for k, v in c.function.arguments.items() %}{{ k }} is {{ v }}{% endfor %}",
    ],
)
def test_arguments_have_the_type_the_template_expects(
    make_template: MakeTemplate, arguments: str
) -> None:
    text = make_template(template(arguments)).render(CALLED, TOOLS)
    if "items" in arguments:
        assert "[CALL look_up place is Rome][CALL note text is Rain]" in text
    else:
        assert "Rome" in text
        assert not {"\\", "'"} & set(text)
        assert '"place"' in text.partition("CALL look_up")[2]
    assert text.startswith('{"name": "look_up", "description": "Finds it.", "parameters": ')


def test_calls_are_split_if_the_template_rejects_several(
    make_template: MakeTemplate,
) -> None:
    before = (
        "{% for m in messages %}{% if m.tool_calls | default([]) | length > 1 %}"
        "{{ raise_exception('one!') }}{% endif %}{% endfor %}"
    )
    text = make_template(template(before=before)).render(CALLED, TOOLS)
    assert text.endswith(
        'assistant:Let me see.[CALL look_up {"place": "Rome"}];tool:sunny for call_1 of look_up;'
        'assistant:[CALL note {"text": "Rain"}];tool:done for call_2 of note;'
    )


def test_calls_are_split_if_the_template_renders_only_the_first(
    make_template: MakeTemplate,
) -> None:
    source = template().replace("in m.tool_calls or []", "in (m.tool_calls or [])[:1]")
    text = make_template(source).render(CALLED, TOOLS)
    assert "[CALL look_up" in text
    assert "[CALL note" in text


@pytest.mark.parametrize(
    "source",
    [
        CHATML,
        MESSAGES_PART.replace(
            "ARGUMENTS", "{{ c.function.arguments }}"
        ),  # supports calls but no tools
        "{% for m in messages if m.role in ['user', 'assistant'] %}{{ m.content }};{% endfor %}",
        "{{ tools[0].nothing.at_all if tools }}" + MESSAGES_PART,
    ],
    ids=["chatml", "calls only", "drops", "fails"],
)
def test_templates_without_tool_support_get_instructions_as_text(
    make_template: MakeTemplate, source: str
) -> None:
    text = make_template(source).render([*CALLED, MORE], TOOLS)
    assert tool_instructions(TOOLS) in text
    assert (
        'Let me see.\n{"name": "look_up", "arguments": {"place": "Rome"}}\n'
        '{"name": "note", "arguments": {"text": "Rain"}}'
    ) in text
    assert "Result of look_up:\nsunny" in text
    assert "Result of note:\ndone" in text
    assert text.index("done") < text.rindex("More")


def test_tool_instructions_follow_the_system_message(make_template: MakeTemplate) -> None:
    messages = tool_instructions(TOOLS)
    text = make_template(CHATML).render(CALLED[:2], TOOLS)
    assert text.startswith(f"<|im_start|>system\nBe brief.\n\n{messages}<|im_end|>\n")
    text = make_template(CHATML).render([MORE], TOOLS)
    assert text.startswith(f"<|im_start|>system\n{messages}<|im_end|>\n<|im_start|>user\nMore")


def test_calls_as_text_use_the_tags_of_the_model(make_template: MakeTemplate) -> None:
    source = (
        TOOLS_PART
        + "{# <tool_call> #}{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    )
    text = make_template(source).render(CALLED, TOOLS)
    assert tool_instructions(TOOLS) not in text
    assert (
        'Let me see.\n<tool_call>\n{"name": "look_up", "arguments": {"place": "Rome"}}\n'
        "</tool_call>\n<tool_call>\n"
    ) in text


def test_schema_unsupported_by_the_template_is_given_as_text(make_template: MakeTemplate) -> None:
    source = "{% for t in tools or [] %}{{ t.function.name + t.function.description }}" + (
        "{% for k, v in t.function.parameters.properties.items() %}{{ k + v.type }}{% endfor %}"
        "{% endfor %}" + MESSAGES_PART.replace("ARGUMENTS", "{{ c.function.arguments | tojson }}")
    )
    unusual = [Tool("f", "F.", '{"properties":{"a":{"enum":[1]}}}')]
    valid = make_template(source)
    assert tool_instructions(TOOLS) not in valid.render(CALLED, TOOLS)
    assert tool_instructions(unusual) in valid.render([MORE], unusual)


def test_alternating_roles_with_calls_as_text(make_template: MakeTemplate) -> None:
    source = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('alternate!') }}{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}"
    )
    text = make_template(source).render([*CALLED, MORE], TOOLS)
    assert text.endswith("user:Result of look_up:\nsunny\n\nResult of note:\ndone\n\nMore;")


def test_empty_tools_for_a_template_that_requires_a_list(make_template: MakeTemplate) -> None:
    source = "{% for t in tools %}{{ t.function | tojson }};{% endfor %}" + MESSAGES_PART
    assert make_template(source).render([MORE]) == "user:More;"


def test_reasoning_is_passed_in_the_field_the_template_reads(make_template: MakeTemplate) -> None:
    messages = [ChatMessage("user", "a"), ChatMessage("assistant", "b", reasoning="why")]
    for name in ("reasoning_content", "thinking", "reasoning", "thought"):
        source = "{% for m in messages %}{{ m.content }}{{ m.NAME or '' }};{% endfor %}"
        assert make_template(source.replace("NAME", name)).render(messages) == "a;bwhy;"


@pytest.mark.parametrize("value", [str(10**30), '"\\ud800"'], ids=["large", "surrogate"])
def test_unserializable_schema_is_rejected(make_template: MakeTemplate, value: str) -> None:
    valid = make_template(template())
    tool = Tool("f", "", f'{{"properties":{{"a":{{"default":{value}}}}}}}')
    with pytest.raises(RequestRejected):
        valid.render([MORE], [tool])
    assert "look_up" in valid.render(CALLED, TOOLS)


class TestContinuing:
    def test_prompt_ends_with_the_continued_message(self, make_template: MakeTemplate) -> None:
        messages = [MORE, ChatMessage("assistant", "One, two,")]
        text = make_template(CHATML).render(messages, continues=True)
        assert text == "<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\nOne, two,"

    def test_trimming_template_keeps_trailing_whitespace(self, make_template: MakeTemplate) -> None:
        source = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"
        messages = [MORE, ChatMessage("assistant", "One \n")]
        assert make_template(source).render(messages, continues=True) == "[More][One \n"

    def test_continuing_an_empty_message(self, make_template: MakeTemplate) -> None:
        messages = [MORE, ChatMessage("assistant", "")]
        text = make_template(CHATML).render(messages, continues=True)
        assert text.endswith("<|im_start|>assistant\n")

    def test_template_that_drops_the_message_is_rejected(self, make_template: MakeTemplate) -> None:
        source = "{% for m in messages[:-1] %}{{ m.content }}{% endfor %}"
        with pytest.raises(TemplateRefused, match="leaves no trace"):
            make_template(source).render([MORE, ChatMessage("assistant", "x")], continues=True)
