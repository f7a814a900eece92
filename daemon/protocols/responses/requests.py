"""From the body of a response to a checked job."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ingle.backends.base.conversation import ChatMessage, Reasoning
from ingle.backends.base.requests import GenerateRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind

from ...errors import InvalidBody, UnsupportedField
from ...http.request_body import parse
from ..ingle_options import is_private, routing_preference_of
from ..job import Job
from ..request_origin import RequestOrigin
from ..sampling_options import merge_sampling
from ..structured_output import ANY_OBJECT
from .item_reader import ItemReader
from .items import Item, ItemIds
from .messages import chat_messages
from .request_types import LOGPROBS, ReasoningOptions, ResponsesRequest, TextFormat, TextOptions
from .response_draft import ResponseDraft
from .tools import ToolReader, tool_choice
from .truncation import Truncation

TEMPLATE_EFFORTS = {"minimal": "low", "xhigh": "high", "max": "high"}
"""Efforts that no template knows, and the nearest word that templates do know."""

ITEMS_A_TURN = 256
"""Items that are read before the event loop has its turn."""

Lookup = Callable[[str], Awaitable[list[msgspec.Raw]]]
"""Items by the id of something that was stored; raises `NotFound` or `InvalidBody`."""


class RequestReader:
    """Checks bodies; what they refer to is looked up by id."""

    def __init__(self, *, conversation: Lookup, item: Lookup) -> None:
        """`conversation` finds all items up to a response's end, `item` a single one."""
        self._conversation = conversation
        self._item = item
        self._items = ItemReader()
        self._tools = ToolReader()

    async def draft(self, body: ResponsesRequest, origin: RequestOrigin) -> ResponseDraft:
        """The response to be; raises `InvalidBody`, `UnsupportedField` and `NotFound`."""
        if body.model is None:
            raise InvalidBody("'model' is missing.", param="model")
        _refuse(body, origin)
        # Checked now, so that a wrong key is refused before a model is loaded for it.
        merge_sampling(body, {})
        ids = ItemIds(f"resp_{secrets.token_hex(ItemIds.LENGTH // 2)}")
        table = self._tools.read(body.tools)
        choice = tool_choice(body.tool_choice, table)
        own = await self._own_items(body, ids)
        history = [*await self._earlier_items(body, ids), *own]
        fitting = Truncation()
        job = Job(
            model=body.model,
            request=GenerateRequest(
                id=f"resp_{ids.token}",
                messages=await _messages(body.instructions, history),
                tools=table.tools,
                tool_choice=choice,
                grammar=self._grammar(body.text),
                **_plain_fields(body, origin),
            ),
            options=body,
            messages_field="input",
            fit=fitting if body.truncation == "auto" else None,
            preference=routing_preference_of(body.ingle),
        )
        return ResponseDraft(
            body=body, job=job, tools=table, input=own, history=history, ids=ids, fit=fitting
        )

    async def _own_items(self, body: ResponsesRequest, ids: ItemIds) -> list[Item]:
        if body.input is None:
            if body.previous_response_id is None and not body.instructions:
                raise InvalidBody("'input' is missing.", param="input")
            return []
        if isinstance(body.input, str):
            message = {"role": "user", "content": body.input}
            raws = [msgspec.Raw(msgspec.json.encode(message))]
        else:
            raws = body.input
        items: list[Item] = []
        for index, raw in enumerate(raws):
            if index % ITEMS_A_TURN == 0:
                await asyncio.sleep(0)
            place = f"input[{index}]"
            if (wanted := self._items.reference(raw, place)) is not None:
                items += self._read(await self._item(wanted), place, ids)
            else:
                items += self._read([raw], place, ids)
        if not items and body.previous_response_id is None and not body.instructions:
            raise InvalidBody("'input' holds nothing that a model can answer.", param="input")
        return items

    async def _earlier_items(self, body: ResponsesRequest, ids: ItemIds) -> list[Item]:
        if body.previous_response_id is None:
            return []
        raws = await self._conversation(body.previous_response_id)
        items: list[Item] = []
        for start in range(0, len(raws), ITEMS_A_TURN):
            await asyncio.sleep(0)
            items += self._read(raws[start : start + ITEMS_A_TURN], "previous_response_id", ids)
        return items

    def _read(self, raws: list[msgspec.Raw], place: str, ids: ItemIds) -> list[Item]:
        found = (self._items.read(raw, place, ids) for raw in raws)
        return [item for item in found if item is not None]

    def _grammar(self, text: TextOptions | None) -> Grammar | None:
        asked = bytes(text.format) if text is not None else b""
        if asked in (b"", b"null"):
            return None
        wanted = parse(asked, TextFormat, "text.format")
        if wanted.type == "text":
            return None
        schema = ANY_OBJECT
        if wanted.type == "json_schema":
            schema = bytes(wanted.schema).decode().strip()
            if schema in ("", "null"):
                raise InvalidBody("'text.format.schema' is missing.", param="text.format.schema")
        lenient = not wanted.strict
        return Grammar(GrammarKind.JSON_SCHEMA, schema, lenient=lenient, param="text.format")


async def _messages(instructions: str | None, history: list[Item]) -> list[ChatMessage]:
    if len(history) <= ITEMS_A_TURN:
        return chat_messages(instructions, history)
    return await asyncio.to_thread(chat_messages, instructions, history)


def _plain_fields(body: ResponsesRequest, origin: RequestOrigin) -> dict[str, Any]:
    return {
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "reasoning": _reasoning(body.reasoning),
        "max_tokens": body.max_output_tokens,
        "logprobs": (body.top_logprobs or 0) if LOGPROBS in body.includes else None,
        "priority": origin.priority or body.priority,
        "client": origin.client,
        "conversation": origin.conversation or (body.ingle and body.ingle.conversation) or "",
        "private": origin.private or is_private(body.ingle, {}),
        "speculation": body.ingle is None or body.ingle.speculation is not False,
    }


def _reasoning(asked: ReasoningOptions | None) -> Reasoning:
    if asked is None or asked.effort is None:
        return Reasoning()
    if asked.effort == "none":
        return Reasoning(enabled=False)
    return Reasoning(enabled=True, effort=TEMPLATE_EFFORTS.get(asked.effort, asked.effort))


def _refuse(body: ResponsesRequest, origin: RequestOrigin) -> None:
    if body.conversation is not None:
        raise UnsupportedField(
            "'conversation' is not supported: conversations are not objects here.",
            hint="Send 'previous_response_id' instead.",
            param="conversation",
        )
    if body.prompt is not None:
        raise UnsupportedField(
            "'prompt' is not supported: prompt templates lie on OpenAI's servers.",
            hint="Send the text as 'instructions' and 'input'.",
            param="prompt",
        )
    if body.background and (body.store is False or origin.private):
        raise InvalidBody(
            "'background' needs a response that is stored.",
            hint="Leave 'store' and 'private' out, or stream the response instead.",
            param="background",
        )
