"""A response before it has an answer: what was asked, checked and resolved."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from ..job import Job
from .items import Item, ItemIds
from .request_types import ENCRYPTED_REASONING, ResponsesRequest
from .response_types import ReasoningConfig, Response, TextConfig
from .tools import ToolTable
from .truncation import Truncation

PLAIN_TEXT = msgspec.Raw(b'{"type":"text"}')


@dataclass(frozen=True, kw_only=True)
class ResponseDraft:
    """The job, and all that its answer is told with.

    `input` are the request's own items, `history` are these and all before them.
    """

    body: ResponsesRequest
    job: Job
    tools: ToolTable
    input: list[Item]
    history: list[Item]
    ids: ItemIds
    fit: Truncation

    @property
    def keeps(self) -> bool:
        """Whether the response is stored: unless the client says no, or it is private."""
        return self.body.store is not False and not self.job.request.private

    @property
    def summarizes(self) -> bool:
        """Whether thoughts are told as a summary."""
        return ReasoningConfig.of(self.body.reasoning).summary is not None

    @property
    def seals(self) -> bool:
        """Whether thoughts are told sealed, too: a client that stores everything needs that."""
        return ENCRYPTED_REASONING in self.body.includes

    def response(self) -> Response:
        """The response as it begins."""
        body, request = self.body, self.job.request
        sampling = self.job.requests({})[0].sampling
        return Response(
            id=request.id,
            created_at=int(time.time()),
            status="queued" if body.background else "in_progress",
            background=bool(body.background),
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            max_tool_calls=body.max_tool_calls,
            model=self.job.model,
            parallel_tool_calls=request.parallel_tool_calls,
            previous_response_id=body.previous_response_id,
            prompt_cache_key=body.prompt_cache_key,
            reasoning=ReasoningConfig.of(body.reasoning),
            safety_identifier=body.safety_identifier,
            service_tier="flex" if body.service_tier == "flex" else "default",
            store=self.keeps,
            temperature=sampling.temperature,
            text=_text_config(body),
            tool_choice=body.tool_choice or "auto",
            tools=body.tools or [],
            top_logprobs=body.top_logprobs or 0,
            top_p=sampling.top_p,
            truncation=body.truncation or "disabled",
            user=body.user,
            metadata=body.metadata or {},
        )


def _text_config(body: ResponsesRequest) -> TextConfig:
    text = body.text
    asked = bytes(text.format) if text is not None else b""
    form = PLAIN_TEXT if asked in (b"", b"null") else msgspec.Raw(asked)
    return TextConfig(form, (text and text.verbosity) or "medium")
