"""The sampling options of a chat: `NAME=VALUE` pairs, checked against the daemon's list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ingle.daemon.client.answer import Answer

from ..chats.command_refused import CommandRefused

if TYPE_CHECKING:
    from ingle.daemon.client.async_client import AsyncDaemonClient

THINKING = ("off", "on", "low", "medium", "high")


class ChatOption(Answer, frozen=True, kw_only=True):
    """One option with its bounds; `minimum` itself is not allowed if it is `exclusive`."""

    name: str
    minimum: float
    maximum: float
    exclusive: bool = False
    is_integer: bool = False
    in_chat: bool = True


class _ChatOptions(Answer, frozen=True, kw_only=True):
    options: list[ChatOption]


# Not options of the sampler, so the daemon does not list them.
_OTHERS = (
    ChatOption(name="seed", minimum=0, maximum=2**31 - 1, is_integer=True),
    ChatOption(name="max_tokens", minimum=1, maximum=2**31 - 1, is_integer=True),
)


async def chat_options(client: AsyncDaemonClient) -> Mapping[str, ChatOption]:
    """The options that a chat can set, by name; raises `ClientError`."""
    listed = await client.request(_ChatOptions, "GET", "/ingle/v1/sampling")
    return {option.name: option for option in (*listed.options, *_OTHERS) if option.in_chat}


def changed_sampling(
    sampling: Mapping[str, float], text: str, options: Mapping[str, ChatOption]
) -> dict[str, float]:
    """Apply the pairs of `text` to `sampling`; raises `CommandRefused`."""
    result = dict(sampling)
    for pair in text.replace(",", " ").split():
        name, equals, value = pair.partition("=")
        if name not in options or not equals:
            known = ", ".join(options)
            raise CommandRefused(f"{pair} is not NAME=VALUE with one of these names: {known}.")
        if value:
            result[name] = _parse(options[name], value)
        else:
            result.pop(name, None)
    return result


def _parse(option: ChatOption, value: str) -> float:
    try:
        number = int(value) if option.is_integer else float(value)
    except ValueError:
        number = float("nan")
    low, high = option.minimum, option.maximum
    if not low <= number <= high or (option.exclusive and number == low):
        above = "above" if option.exclusive else "from"
        limits = f"{above} {low:g} to {high:g}"
        raise CommandRefused(f"{option.name} is a number {limits}, not {value}.")
    return number
