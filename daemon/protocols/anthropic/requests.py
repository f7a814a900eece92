"""Converts Anthropic's request bodies into validated jobs."""

from __future__ import annotations

import secrets

import msgspec

from ingle.backends.base.conversation import ChatMessage, Reasoning, Tool, ToolChoice
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind

from ...errors import InvalidBody, UnsupportedField
from ..ingle_options import RequestOrigin, routing_preference_of
from ..job import Job
from ..request_options import merge_sampling, only_one, stop_strings, template_effort
from .client_tools import client_tool
from .messages import chat_messages, json_object
from .tool_kinds import is_client_tool, is_hosted_tool
from .types import InputTool, MessagesRequest, OutputFormat, PromptRequest, ToolChoiceField


def messages_job(body: MessagesRequest, origin: RequestOrigin) -> Job:
    """Check a request; raises `InvalidBody` and `UnsupportedField`."""
    # Checked now, so that a wrong key is refused before a model is loaded for it.
    merge_sampling(body, {})
    request = msgspec.structs.replace(
        prompt_request(body),
        id=f"msg_{secrets.token_hex(12)}",
        max_tokens=body.max_tokens,
        stop=stop_strings(body.stop_sequences, "stop_sequences"),
        **origin.request_fields(body.ingle),
        grammar=_grammar(body),
    )
    return Job(
        model=body.model or "",
        request=request,
        options=body,
        preference=routing_preference_of(body.ingle),
    )


def prompt_request(body: PromptRequest) -> GenerateRequest:
    """The fields that make up the prompt; raises `InvalidBody` and `UnsupportedField`."""
    messages = chat_messages(body.system, body.messages)
    tools = _tools(body.tools or [])
    choice = body.tool_choice
    return GenerateRequest(
        id=f"count_{secrets.token_hex(12)}",
        messages=messages,
        tools=tools,
        tool_choice=_tool_choice(choice, tools, body.tools or []),
        parallel_tool_calls=not (choice and choice.disable_parallel_tool_use),
        reasoning=_reasoning(body),
        continues=_continues(messages),
    )


def _continues(messages: list[ChatMessage]) -> bool:
    last = messages[-1]
    if last.role != "assistant":
        return False
    if last.tool_calls:
        raise InvalidBody(
            "The last message calls tools, and nothing says what they gave.",
            hint="Send a user message with a 'tool_result' block for each 'tool_use'.",
            param="messages",
        )
    return True


def _tools(given: list[InputTool]) -> list[Tool]:
    tools: dict[str, Tool] = {}
    for number, tool in enumerate(given):
        place = f"tools[{number}]"
        if (offered := _offered(tool, place)) is None:
            continue
        if offered.name in tools:
            raise InvalidBody(
                f"'{place}.name' is {offered.name[:40]!r}, which another tool has.",
                param=f"{place}.name",
            )
        tools[offered.name] = offered
    return list(tools.values())


def _offered(tool: InputTool, place: str) -> Tool | None:
    """The tool as the model sees it; None for one that only Anthropic's servers could run."""
    kind = tool.type or "custom"
    is_client_side = kind == "custom" or is_client_tool(kind)
    if not is_client_side:
        _check_hosted(kind, place)
        return None
    if tool.name is None:
        raise InvalidBody(f"'{place}.name' is missing.", param=f"{place}.name")
    if kind != "custom":
        return client_tool(tool, tool.name)
    schema = json_object(tool.input_schema, f"{place}.input_schema")
    return Tool(tool.name, tool.description or "", schema, bool(tool.strict))


def _check_hosted(kind: str, place: str) -> None:
    if not is_hosted_tool(kind):
        raise InvalidBody(
            f"'{place}.type' is {kind[:40]!r}.",
            hint="A tool of your own is of type 'custom', or has no type.",
            param=f"{place}.type",
        )


def _tool_choice(
    choice: ToolChoiceField | None, tools: list[Tool], given: list[InputTool]
) -> ToolChoice:
    """The choice; raises `InvalidBody` if it demands a tool that cannot be called here."""
    if choice is None or choice.type == "auto":
        return ToolChoice()
    if choice.type == "none":
        return ToolChoice("none")
    if not given:
        raise InvalidBody("'tool_choice' needs 'tools'.", param="tool_choice")
    if choice.type == "any":
        if not tools:
            raise UnsupportedField(
                "'tool_choice' demands a call, and all 'tools' run on Anthropic's servers only.",
                hint="Send tools that your client runs, or leave 'tool_choice' out.",
                param="tool_choice",
            )
        return ToolChoice("required")
    if choice.name is None:
        raise InvalidBody("'tool_choice.name' is missing.", param="tool_choice.name")
    if any(choice.name == tool.name for tool in tools):
        return ToolChoice("required", [choice.name])
    if any(choice.name == tool.name for tool in given):
        raise UnsupportedField(
            f"'tool_choice' demands {choice.name[:40]!r}, which runs on Anthropic's servers only.",
            hint="Name a tool that your client runs, or leave 'tool_choice' out.",
            param="tool_choice.name",
        )
    raise InvalidBody(
        f"'tool_choice.name' is {choice.name[:40]!r}, and no tool is called so.",
        param="tool_choice.name",
    )


def _reasoning(body: PromptRequest) -> Reasoning:
    """Without `thinking` the model answers directly, if it can."""
    effort = body.output_config.effort if body.output_config is not None else None
    word = template_effort(effort)
    thinking = body.thinking
    if thinking is None or thinking.type == "disabled":
        return Reasoning(enabled=False, effort=word)
    if thinking.type == "enabled":
        return Reasoning(enabled=True, effort=word, budget=thinking.budget_tokens)
    return Reasoning(effort=word)


def _grammar(body: MessagesRequest) -> Grammar | None:
    config = body.output_config
    return only_one(
        [
            _schema(config.format if config is not None else None, "output_config.format"),
            _schema(body.output_format, "output_format"),
        ]
    )


def _schema(wanted: OutputFormat | None, param: str) -> Grammar | None:
    if wanted is None:
        return None
    text = json_object(wanted.schema, f"{param}.schema")
    return Grammar(GrammarKind.JSON_SCHEMA, text, param=param)
