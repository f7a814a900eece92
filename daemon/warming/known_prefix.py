"""The beginning of an agent's prompts: instructions and tools, the same in all its sessions."""

from __future__ import annotations

import hashlib
import re
from itertools import takewhile

import msgspec

from ingle.backends.base.conversation import (
    ChatMessage,
    Reasoning,
    TemplateVariables,
    Tool,
    ToolChoice,
)
from ingle.backends.base.requests import GenerateRequest, Priority

from .volatile_lines import moved_behind

LEAST_CHARACTERS = 2048
"""Shorter instructions are computed within a moment."""
_LIBRARIES = (
    *("openai", "asyncopenai", "anthropic", "asyncanthropic", "ai", "ai-sdk", "litellm", "node"),
    *("undici", "axios", "python-httpx", "python-requests", "go-http-client", "unknown"),
)
"""What libraries call themselves in requests of programs that do not say who they are."""
_INTRODUCED = re.compile(r"\s*You are (?:the )?([A-Z][\w -]{1,30}), an? ")
_HEAD = 64
"""First characters of the instructions that distinguish the kinds of an agent's requests."""


class KnownPrefix(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a request of an agent says before its conversation.

    `agent` is what the client calls itself, without a version, or the name in its instructions if
    the client names only a library.
    """

    agent: str
    system: list[ChatMessage]
    tools: list[Tool] = []
    shown_tools: list[Tool] = []
    tool_choice: ToolChoice = ToolChoice()
    reasoning: Reasoning = Reasoning()
    template_variables: TemplateVariables = {}

    @classmethod
    def of(cls, request: GenerateRequest, user_agent: str) -> KnownPrefix | None:
        """Return the prefix of a request; None if it is private, a batch's, or short."""
        if request.private or request.priority is not Priority.INTERACTIVE or request.raw:
            return None
        system = list(takewhile(lambda said: said.role == "system", request.messages or ()))
        prefix = cls(
            agent=agent_name(user_agent, system[0].content if system else ""),
            system=system,
            tools=request.tools,
            shown_tools=request.shown_tools,
            tool_choice=request.tool_choice,
            reasoning=request.reasoning,
            template_variables=request.template_variables,
        )
        return prefix if prefix.characters >= LEAST_CHARACTERS else None

    @property
    def characters(self) -> int:
        """The length of all its text."""
        return len(self.instructions) + sum(
            len(tool.name) + len(tool.description) + len(tool.parameters) for tool in self.tools
        )

    @property
    def instructions(self) -> str:
        """The text of its system messages."""
        return "\n\n".join(message.content for message in self.system)

    @property
    def kind(self) -> str:
        """A digest that stays the same while only details of the instructions change."""
        names = sorted(tool.name for tool in self.tools)
        parts = (self.agent, self.instructions[:_HEAD], *names)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def request(self, identifier: str, said: str) -> GenerateRequest:
        """Return a request that says `said` after this."""
        return GenerateRequest(
            id=identifier,
            messages=[*self.system, ChatMessage("user", said)],
            tools=self.tools,
            shown_tools=self.shown_tools,
            tool_choice=self.tool_choice,
            reasoning=self.reasoning,
            template_variables=self.template_variables,
        )


def stable(request: GenerateRequest) -> GenerateRequest:
    """Return an agent's request so that it begins like its other ones.

    Lines of the instructions that change follow the tools, and the tools are sorted by name.
    """
    if not request.tools or not request.messages:
        return request
    return msgspec.structs.replace(
        request,
        messages=moved_behind(request.messages),
        tools=sorted(request.tools, key=lambda tool: tool.name),
    )


def agent_name(user_agent: str, instructions: str) -> str:
    """Return the first product of a User-Agent header without its version; "unknown" if empty.

    Of a library, what the instructions call the agent, if they begin with that.
    """
    name = re.split(r"[/\s]", user_agent.strip(), maxsplit=1)[0] or "unknown"
    if name.casefold() in _LIBRARIES and (found := _INTRODUCED.match(instructions)) is not None:
        return found[1]
    return name
