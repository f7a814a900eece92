"""Converts the body of a response into a validated job and a draft of the response."""

from __future__ import annotations

import dataclasses
import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ingle.backends.base.conversation import ChatMessage, Reasoning
from ingle.backends.base.errors import RequestRejected
from ingle.backends.base.requests import GenerateRequest, TokenizeRequest
from ingle.backends.base.sampling_params import Grammar, GrammarKind

from ...errors import InvalidBody, UnsupportedField
from ...http.bodies import parse
from ...http.off_loop import off_loop
from ...lifecycle.lease import Lease
from ..ingle_options import RequestOrigin, routing_preference_of
from ..job import Job
from ..request_options import ANY_OBJECT, merge_sampling, template_effort
from .item_reader import chat_messages, read_item, reference_of
from .items import (
    CompactionItem,
    FunctionCallItem,
    FunctionCallOutput,
    InputText,
    Item,
    ItemIds,
    MessageItem,
    stored_item,
)
from .tools import ToolTable, echoed_tools, read_tools, tool_choice
from .types import (
    ENCRYPTED_REASONING,
    LOGPROBS,
    ConversationReference,
    ReasoningConfig,
    ReasoningRequest,
    Response,
    ResponsesRequest,
    TextConfig,
    TextFormat,
    TextOptions,
)

if TYPE_CHECKING:
    from .response_state import ConversationState

SHARE_FOR_ANSWER = 4
"""One part in so many of the context is reserved for the answer at most."""


class Truncation:
    """Shortens one conversation; `dropped` is the number of messages left out."""

    def __init__(self) -> None:
        self.dropped = 0

    async def __call__(self, job: Job, lease: Lease) -> Job:
        """The job, short enough for the model; instructions and the last message always stay."""
        messages = job.request.messages or []
        cuts = _cuts(messages)
        # A binary search, since each step tokenizes the whole conversation.
        low, high = 0, len(cuts) - 1
        while low < high:
            middle = (low + high) // 2
            if await _fits(_cut(job.request, messages, cuts[middle]), lease):
                high = middle
            else:
                low = middle + 1
        self.dropped = cuts[low] - cuts[0]
        return dataclasses.replace(job, request=_cut(job.request, messages, cuts[low]))


def _cuts(messages: list[ChatMessage]) -> list[int]:
    """The messages that may follow the instructions without separating a result from its call."""
    start = next((i for i, message in enumerate(messages) if message.role != "system"), 0)
    later = [i for i in range(start + 1, len(messages)) if messages[i].role == "user"]
    return [start, *later]


def _cut(request: GenerateRequest, messages: list[ChatMessage], cut: int) -> GenerateRequest:
    start = _cuts(messages)[0]
    return structs.replace(request, messages=[*messages[:start], *messages[cut:]])


async def _fits(request: GenerateRequest, lease: Lease) -> bool:
    context = lease.context
    reserve = context // SHARE_FOR_ANSWER
    if request.max_tokens is not None:
        reserve = min(request.max_tokens, reserve)
    try:
        asked = TokenizeRequest(id=f"{request.id}-fit", generate=request)
        found = await lease.backend.tokenize(asked)
    except RequestRejected as error:
        if error.code != "context_length_exceeded":
            raise
        return False
    return len(found.token_ids) + reserve <= context


PLAIN_TEXT = msgspec.Raw(b'{"type":"text"}')


@dataclass(frozen=True, kw_only=True)
class ResponseDraft:
    """A response before its answer: the validated job, and the data that the answer needs.

    `input` are the request's own items, `history` are these and all before them. `echoed` are the
    tools as the response repeats them.
    """

    body: ResponsesRequest
    job: Job
    tools: ToolTable
    echoed: list[msgspec.Raw]
    input: list[Item]
    history: list[Item]
    ids: ItemIds
    fit: Truncation

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the response extends."""
        return self.body.conversation_id

    @property
    def keeps(self) -> bool:
        """Whether the response is stored: unless the client says no, or it is private."""
        return self.body.store is not False and not self.job.request.private

    @property
    def summarizes(self) -> bool:
        """Whether the answer has reasoning as a summary."""
        return ReasoningConfig.of(self.body.reasoning).summary is not None

    @property
    def seals(self) -> bool:
        """Whether the answer also has reasoning as `encrypted_content`."""
        return ENCRYPTED_REASONING in self.body.includes

    def response(self) -> Response:
        """The response as it begins."""
        body, request = self.body, self.job.request
        sampling = self.job.requests({})[0].sampling
        verbosity = body.text.verbosity if body.text is not None else None
        return Response(
            id=request.id,
            created_at=int(time.time()),
            status="queued" if body.background else "in_progress",
            background=bool(body.background),
            conversation=ConversationReference(place) if (place := body.conversation_id) else None,
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            max_tool_calls=body.max_tool_calls,
            model=self.job.model,
            parallel_tool_calls=request.parallel_tool_calls,
            frequency_penalty=sampling.frequency_penalty,
            presence_penalty=sampling.presence_penalty,
            previous_response_id=body.previous_response_id,
            prompt_cache_key=body.prompt_cache_key,
            reasoning=ReasoningConfig.of(body.reasoning),
            safety_identifier=body.safety_identifier,
            service_tier="flex" if body.service_tier == "flex" else "default",
            store=self.keeps,
            temperature=sampling.temperature,
            text=TextConfig(_format_of(body.text) or PLAIN_TEXT, verbosity or "medium"),
            tool_choice=body.tool_choice or "auto",
            tools=self.echoed,
            top_logprobs=body.top_logprobs or 0,
            top_p=sampling.top_p,
            truncation=body.truncation or "disabled",
            user=body.user,
            metadata=body.metadata or {},
        )


async def draft_response(
    body: ResponsesRequest, origin: RequestOrigin, state: ConversationState
) -> ResponseDraft:
    """Check a body, whose references are looked up in `state`.

    Raises `InvalidBody`, `UnsupportedField` and `NotFound`.
    """
    _refuse(body, origin)
    # Checked now, so that a wrong key is refused before a model is loaded for it.
    merge_sampling(body, {})
    ids = ItemIds(f"resp_{secrets.token_hex(ItemIds.LENGTH // 2)}")
    raws = body.tools or []
    table, echoed = await off_loop(_size(raws), lambda: (read_tools(raws), echoed_tools(raws)))
    choice = tool_choice(body.tool_choice, table)
    own = await _own_items(body, ids, state)
    earlier, earlier_bytes = await _earlier_items(body, ids, state, own)
    history = [*earlier, *own]
    size = earlier_bytes + (_size(body.input) if isinstance(body.input, list) else 0)
    messages = await off_loop(size, partial(_messages, body.instructions, own, history))
    fitting = Truncation()
    job = Job(
        model=body.model or "",
        request=GenerateRequest(
            id=f"resp_{ids.token}",
            messages=messages,
            tools=table.tools,
            tool_choice=choice,
            grammar=_grammar(body.text),
            parallel_tool_calls=body.parallel_tool_calls is not False,
            reasoning=_reasoning(body.reasoning),
            max_tokens=body.max_output_tokens,
            reports_progress=bool(body.stream),
            logprobs=(body.top_logprobs or 0) if LOGPROBS in body.includes else None,
            **origin.request_fields(body.ingle, body.service_tier),
        ),
        options=body,
        messages_field="input",
        fit=fitting if body.truncation == "auto" else None,
        preference=routing_preference_of(body.ingle),
    )
    return ResponseDraft(
        body=body,
        job=job,
        tools=table,
        echoed=echoed,
        input=own,
        history=history,
        ids=ids,
        fit=fitting,
    )


async def _own_items(body: ResponsesRequest, ids: ItemIds, state: ConversationState) -> list[Item]:
    if body.input is None:
        if not _continues(body) and not body.instructions:
            raise InvalidBody("'input' is missing.", param="input")
        return []
    if isinstance(body.input, str):
        return [MessageItem(id=ids.new("msg"), role="user", content=[InputText(body.input)])]
    raws, size = body.input, _size(body.input)
    found: dict[int, list[msgspec.Raw]] = {}
    for index, wanted in await off_loop(size, partial(_references, raws)):
        found[index] = await state.item(wanted)

    def read() -> list[Item]:
        places = [(found.get(i, [raw]), f"input[{i}]") for i, raw in enumerate(raws)]
        return [item for given, place in places for item in _read(given, place, ids)]

    items = await off_loop(size, read)
    if not items and not _continues(body) and not body.instructions:
        raise InvalidBody("'input' holds nothing that a model can answer.", param="input")
    return items


def _references(raws: list[msgspec.Raw]) -> list[tuple[int, str]]:
    """The numbers of the items that refer to others, and the ids of these."""
    wanted = [(i, reference_of(raw, f"input[{i}]")) for i, raw in enumerate(raws)]
    return [(i, item_id) for i, item_id in wanted if item_id is not None]


def _size(raws: list[msgspec.Raw]) -> int:
    return sum(memoryview(raw).nbytes for raw in raws)


async def _earlier_items(
    body: ResponsesRequest, ids: ItemIds, state: ConversationState, own: list[Item]
) -> tuple[list[Item], int]:
    """The items that the input continues, and the bytes of their JSON."""
    if body.conversation_id is not None:
        conversation = await state.conversations.get(body.conversation_id)
        raws = conversation.items
        # What the conversation already has is refused before the answer.
        extend = partial(conversation.extended, [stored_item(item) for item in own])
        await off_loop(_size(raws), extend)
    elif body.previous_response_id is not None:
        raws = await state.conversation(body.previous_response_id)
    else:
        return [], 0
    size = _size(raws)
    return await off_loop(size, partial(_read, raws, "previous_response_id", ids)), size


def _continues(body: ResponsesRequest) -> bool:
    return body.previous_response_id is not None or body.conversation_id is not None


def _check_outputs(own: list[Item], history: list[Item]) -> None:
    """Raise `InvalidBody` for the output of a function that was not called.

    A compaction leaves calls out.
    """
    if any(isinstance(item, CompactionItem) for item in history):
        return
    called: set[str | msgspec.UnsetType] = {msgspec.UNSET}
    called |= {item.call_id for item in history if isinstance(item, FunctionCallItem)}
    for item in own:
        if isinstance(item, FunctionCallOutput) and item.call_id not in called:
            raise InvalidBody(
                f"No tool call found for function call output with call_id {item.call_id!r}.",
                hint="Send the call before its output, or its response as 'previous_response_id'.",
                param="input",
            )


def _read(raws: list[msgspec.Raw], place: str, ids: ItemIds) -> list[Item]:
    found = (read_item(raw, place, ids) for raw in raws)
    return [item for item in found if item is not None]


def _format_of(text: TextOptions | None) -> msgspec.Raw | None:
    given = bytes(text.format) if text is not None else b""
    return None if given in (b"", b"null") else msgspec.Raw(given)


def _grammar(text: TextOptions | None) -> Grammar | None:
    given = _format_of(text)
    if given is None:
        return None
    wanted = parse(bytes(given), TextFormat, "text.format")
    if wanted.type == "text":
        return None
    schema = ANY_OBJECT
    if wanted.type == "json_schema":
        schema = bytes(wanted.schema).decode().strip()
        if schema in ("", "null"):
            raise InvalidBody("'text.format.schema' is missing.", param="text.format.schema")
    lenient = not wanted.strict
    return Grammar(GrammarKind.JSON_SCHEMA, schema, lenient=lenient, param="text.format")


def _messages(instructions: str | None, own: list[Item], history: list[Item]) -> list[ChatMessage]:
    _check_outputs(own, history)
    return chat_messages(instructions, history)


def _reasoning(asked: ReasoningRequest | None) -> Reasoning:
    if asked is None or asked.effort is None:
        return Reasoning()
    if asked.effort == "none":
        return Reasoning(enabled=False)
    return Reasoning(enabled=True, effort=template_effort(asked.effort))


def _refuse(body: ResponsesRequest, origin: RequestOrigin) -> None:
    if body.conversation_id is not None and body.previous_response_id is not None:
        raise InvalidBody(
            "'conversation' and 'previous_response_id' exclude each other.",
            hint="Send one of them.",
            param="conversation",
        )
    is_private = origin.private or bool(body.ingle and body.ingle.private)
    if body.conversation_id is not None and is_private:
        raise InvalidBody(
            "A private response cannot be part of a 'conversation', which is stored.",
            hint="Send the conversation as 'input'.",
            param="conversation",
        )
    if body.prompt is not None:
        raise UnsupportedField(
            "'prompt' is not supported: prompt templates are on OpenAI's servers.",
            hint="Send the text as 'instructions' and 'input'.",
            param="prompt",
        )
    if body.background and (body.store is False or origin.private):
        raise InvalidBody(
            "'background' needs a response that is stored.",
            hint="Leave 'store' and 'private' out, or stream the response instead.",
            param="background",
        )
