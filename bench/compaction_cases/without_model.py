"""Counts the facts kept by extraction alone after several rounds, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from compaction_cases.chat_maker import MadeChat
from compaction_cases.grading import says
from compaction_cases.views import add_turns
from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.client_errors import DaemonError
from ingle.tui.chats.chat import Chat
from ingle.tui.chats.context_view import request_messages
from ingle.tui.compaction.compactor import Compactor
from ingle.tui.compaction.summary_notes import HEADINGS

T = TypeVar("T")
GIST = "The user chats about house, food and journeys and wants help with all of it."
NOTES = "\n".join(
    f"{heading}:\n- {GIST if heading == next(iter(HEADINGS)) else 'none'}" for heading in HEADINGS
)
"""As little as a model can write."""


class NoDaemon(AsyncDaemonClient):
    """Without a daemon: sizes are estimated."""

    def __init__(self) -> None:
        super().__init__(address=("127.0.0.1", 0))

    async def request(
        self, kind: type[T], method: str, path: str, body: object = None, *, patience: float = 30.0
    ) -> T:
        """Nobody is there to ask."""
        raise DaemonError("There is no daemon here.", code="none")


class WithoutModel(Compactor):
    """The product's compaction with empty notes."""

    async def _ask(self, messages: list[dict[str, str]], budget: int) -> tuple[str, str]:
        return NOTES, "stop"


async def count_values(chats: Sequence[MadeChat], last: int) -> dict[int, Counter[str]]:
    """Count by round: values `asked` for and `lost`, and outdated sentences of those `corrected`
    that `stand`.

    A sentence stands if it is kept verbatim with its old value.
    """
    found = {number: Counter[str]() for number in range(1, last + 1)}
    for made in chats:
        chat = Chat()
        add_turns(chat, made.turns)
        for number in range(1, last + 1):
            if number > 1:
                add_turns(chat, made.rounds[number - 2])
            chat.add_compaction(await WithoutModel(NoDaemon(), chat, None).run())
            sent = " ".join(message["content"] for message in request_messages(chat))
            found[number] += _count(made, number, sent)
    return found


def _count(made: MadeChat, number: int, sent: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for fact in made.facts:
        if fact.kind == "never said":
            continue
        told = not fact.stale or fact.late <= number
        counts["asked"] += 1
        counts["lost"] += not says(sent, fact.value if told else fact.stale)
        if fact.stale and told:
            counts["corrected"] += 1
            counts["stand"] += fact.before in sent
    return counts


def lines(found: Mapping[int, Counter[str]]) -> list[str]:
    """The counts for people."""
    return [
        f"after {number}: {c['asked'] - c['lost']}/{c['asked']} values are sent, "
        f"{c['stand']}/{c['corrected']} old ones stand as they were said"
        for number, c in found.items()
    ]
