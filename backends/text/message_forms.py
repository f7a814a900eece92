"""Other ways to put the same conversation, for templates that were written for fewer roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..conversation import ChatMessage

Message = dict[str, object]
"""One message as a template sees it: `role`, `content`, and `name` where there is one."""

BETWEEN = "\n\n"
SYSTEM_PROBE = ChatMessage("system", "Probe of the system role.")
USER_PROBE = ChatMessage("user", "Probe of the user role.")


@dataclass(frozen=True, slots=True)
class TemplateHabits:
    """What a template does without a word: leave out system messages, or text not in parts."""

    drops_system: bool = False
    wants_parts: bool = False


def probe_habits(render: Callable[[list[Message]], str | None]) -> TemplateHabits:
    """Learn them from two made-up messages; `render` gives None where the template refuses."""
    both = [SYSTEM_PROBE, USER_PROBE]
    form = _plain
    text = render([form(message) for message in both]) or render([form(USER_PROBE)])
    wants_parts = False
    if text is not None and USER_PROBE.content not in text:
        in_parts = render([_in_parts(message) for message in both])
        in_parts = in_parts or render([_in_parts(USER_PROBE)])
        wants_parts = in_parts is not None and USER_PROBE.content in in_parts
        form = _in_parts if wants_parts else _plain
    with_system = render([form(message) for message in both])
    drops_system = with_system is not None and SYSTEM_PROBE.content not in with_system
    return TemplateHabits(drops_system, wants_parts)


def message_forms(
    messages: Sequence[ChatMessage], habits: TemplateHabits
) -> Iterator[list[Message]]:
    """The conversation as the template reads it, then milder changes before greater ones."""
    folded = fold_system(messages)
    original = folded if habits.drops_system else list(messages)
    form = _in_parts if habits.wants_parts else _plain
    seen: list[list[ChatMessage]] = []
    for said in (original, merge_same_roles(original), folded, merge_same_roles(folded)):
        if said not in seen:
            seen.append(said)
            yield [form(message) for message in said]


def merge_same_roles(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Consecutive messages of one speaker as one, for templates that want roles to alternate."""
    return [
        ChatMessage(role, BETWEEN.join(message.content for message in group), name)
        for (role, name), group in groupby(messages, key=lambda m: (m.role, m.name))
    ]


def fold_system(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """System messages at the head of the next user message, for templates without that role."""
    folded: list[ChatMessage] = []
    system: list[str] = []
    for message in messages:
        if message.role == "system":
            system.append(message.content)
            continue
        if message.role == "user":
            content = BETWEEN.join([*system, message.content])
            folded.append(ChatMessage("user", content, message.name))
        else:
            folded += _as_user(system)
            folded.append(message)
        system = []
    return folded + _as_user(system)


def _as_user(system: Sequence[str]) -> list[ChatMessage]:
    return [ChatMessage("user", BETWEEN.join(system))] if system else []


def _plain(message: ChatMessage) -> Message:
    plain: Message = {"role": message.role, "content": message.content}
    if message.name is not None:
        plain["name"] = message.name
    return plain


def _in_parts(message: ChatMessage) -> Message:
    return _plain(message) | {"content": [{"type": "text", "text": message.content}]}
