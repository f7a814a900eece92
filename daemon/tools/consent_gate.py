"""Consents of one chat: what was asked, and what holds for later calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from ..client.tool_types import ConsentChoice, ConsentRequest
from .tool import ConsentTerms


class ConsentGate:
    """Asks the client, unless an earlier choice of the same scope decides."""

    def __init__(
        self, send: Callable[[ConsentRequest], None], choices: Mapping[str, ConsentChoice]
    ) -> None:
        self._send = send
        self._choices = dict(choices)
        self._asked: dict[str, tuple[str, asyncio.Future[ConsentChoice]]] = {}

    async def ask(self, call_id: str, terms: ConsentTerms) -> bool:
        """Return whether the user consents; the only way to a yes is `decide`, now or before."""
        choice = self._choices.get(terms.scope, "once")
        if choice != "once":
            return choice == "always"
        answer: asyncio.Future[ConsentChoice] = asyncio.get_running_loop().create_future()
        self._asked[call_id] = terms.scope, answer
        try:
            self._send(ConsentRequest(id=call_id, **msgspec.structs.asdict(terms)))
            choice = await answer
        finally:
            del self._asked[call_id]
        return choice != "never"

    def decide(self, call_id: str, choice: ConsentChoice) -> None:
        """Answer what was asked; an answer to nothing has no effect.

        A choice that holds also answers what is asked meanwhile with the same scope.
        """
        scope, _ = self._asked.get(call_id, ("", None))
        for one, (other, answer) in list(self._asked.items()):
            if answer.done():
                continue
            if one == call_id or (choice != "once" and other == scope):
                answer.set_result(choice)
        if scope and choice != "once":
            self._choices[scope] = choice
