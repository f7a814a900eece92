"""Fields without effect: named in a header, counted, or refused where the answer would differ."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from anthropic.types import (
    message_count_tokens_params,
    message_create_params,
)
from anthropic.types.beta import message_create_params as beta_message_create_params
from anthropic.types.messages import batch_create_params
from openai.types import completion_create_params, embedding_create_params
from openai.types.audio import (
    speech_create_params,
    transcription_create_params,
    translation_create_params,
)
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.chat import completion_update_params
from openai.types.conversations import (
    conversation_create_params,
    conversation_update_params,
    item_create_params,
)
from openai.types.responses import response_create_params

from ingle.daemon.http.bodies import parse_served
from ingle.daemon.http.field_policy import decided_fields, field_policy_of, ignored_fields
from ingle.daemon.protocols.anthropic.message_batches_api import MessageBatchRequest
from ingle.daemon.protocols.anthropic.types import MessagesRequest, PromptRequest
from ingle.daemon.protocols.ollama.types import EmbedBody
from ingle.daemon.protocols.openai.audio_api import TranscriptionForm, TranslationForm
from ingle.daemon.protocols.openai.completions.request_types import (
    ChatCompletionRequest,
    PlainCompletionRequest,
)
from ingle.daemon.protocols.openai.embeddings_api import EmbeddingsRequest
from ingle.daemon.protocols.openai.list_pages import MetadataUpdate
from ingle.daemon.protocols.openai.speech_api import SpeechRequest
from ingle.daemon.protocols.responses.conversations_api import ConversationRequest, NewItems
from ingle.daemon.protocols.responses.types import LOGPROBS, ResponsesRequest

if TYPE_CHECKING:
    from ..conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

HI = [{"role": "user", "content": "Hi"}]
CHAT = "/v1/chat/completions"
CALLS: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HI},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": HI, "max_tokens": 9},
    "/v1/messages/count_tokens": {"messages": HI},
    "/api/chat": {"messages": HI},
    "/api/generate": {"prompt": "Hi"},
    "/completion": {"prompt": "Hi"},
    "/api/v0/chat/completions": {"messages": HI},
}


@pytest.mark.parametrize(
    ("params", "body"),
    [
        (chat_create_params.CompletionCreateParamsStreaming, ChatCompletionRequest),
        (completion_create_params.CompletionCreateParamsStreaming, PlainCompletionRequest),
        (embedding_create_params.EmbeddingCreateParams, EmbeddingsRequest),
        (
            transcription_create_params.TranscriptionCreateParamsStreaming,
            TranscriptionForm,
        ),
        (translation_create_params.TranslationCreateParams, TranslationForm),
        (speech_create_params.SpeechCreateParams, SpeechRequest),
        (response_create_params.ResponseCreateParamsStreaming, ResponsesRequest),
        (message_create_params.MessageCreateParamsStreaming, MessagesRequest),
        (message_count_tokens_params.MessageCountTokensParams, PromptRequest),
        (beta_message_create_params.MessageCreateParamsStreaming, MessagesRequest),
        (batch_create_params.BatchCreateParams, MessageBatchRequest),
        (conversation_create_params.ConversationCreateParams, ConversationRequest),
        (conversation_update_params.ConversationUpdateParams, MetadataUpdate),
        (item_create_params.ItemCreateParams, NewItems),
        (completion_update_params.CompletionUpdateParams, MetadataUpdate),
    ],
)
def test_every_field_of_the_official_clients_is_decided_about(params: Any, body: type) -> None:
    """A field that a new client has is served, or joins a list in `field_policies`."""
    fields = params.__required_keys__ | params.__optional_keys__
    elsewhere = {"betas"} if body is not NewItems else {"include"}  # a header, and in the query
    assert fields - elsewhere <= {name.removesuffix("[]") for name in decided_fields(body)}


@pytest.mark.parametrize(
    ("kind", "required"),
    [
        (ChatCompletionRequest, {"messages": HI}),
        (PlainCompletionRequest, {"prompt": "Hi"}),
        (EmbeddingsRequest, {"input": "Hi"}),
        (ResponsesRequest, {"input": "Hi"}),
        (MessagesRequest, {"messages": HI, "max_tokens": 9}),
        (PromptRequest, {"messages": HI}),
    ],
)
def test_the_first_look_misses_no_field_without_effect(
    kind: type, required: dict[str, Any]
) -> None:
    policy = field_policy_of(kind)
    assert policy is not None
    own = {field.encode_name for field in msgspec.structs.fields(kind)}
    for name in policy.ignored - own:
        for value, found in ((1, [name]), ("x", [name]), (None, [])):
            body = msgspec.json.encode({"model": "m", **required, name: value})
            assert [field.name for field in parse_served(body, kind)[1]] == found


def test_options_of_embeddings_have_no_effect() -> None:
    body = b'{"model":"m","input":"a","options":{"num_ctx":9}}'
    assert [field.name for field in ignored_fields(body, EmbedBody)] == ["options"]


async def headers_of(daemon: RunningDaemon, path: str, **fields: Any) -> str | None:
    body = {"model": "echo:1", **CALLS[path], **fields}
    answer = await daemon.tcp.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.headers.get("ingle-ignored")


@pytest.mark.parametrize("path", CALLS)
async def test_a_body_of_served_fields_has_no_header(daemon: RunningDaemon, path: str) -> None:
    assert await headers_of(daemon, path) is None
    assert await headers_of(daemon, path, temperature=None, absent=None) is None


@pytest.mark.parametrize(
    ("path", "fields", "header"),
    [
        (CHAT, {"verbosity": "low", "prediction": {}}, "verbosity, prediction"),
        (CHAT, {"verbosity": "low", "stream": True}, "verbosity"),
        ("/v1/completions", {"store": True}, "store"),
        (CHAT, {"temprature": 0.1}, "temprature;nearest=temperature"),
        (CHAT, {"qqqqqqqq": 1}, "qqqqqqqq"),
        (CHAT, {"a, b\r\n": 1}, "a__b__"),
        (CHAT, {"x" * 100: 1}, "x" * 40),
        ("/v1/completions", {"length_penalty": 2}, "length_penalty"),
        ("/v1/responses", {"max_tool_calls": 2}, "max_tool_calls"),
        ("/v1/messages", {"container": "c", "stream": True}, "container"),
        (
            CHAT,
            {"tools": [{"type": "web_search"}, {"type": "x y"}]},
            "tools.web_search, tools.x_y",
        ),
        (
            "/v1/responses",
            {"tools": [{"type": "mcp"}, {"type": "mcp"}], "include": ["x", LOGPROBS]},
            "tools.mcp, include.x",
        ),
        (
            "/v1/messages",
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools.web_search_20250305",
        ),
        ("/v1/messages", {"stop_sequence": ["x"]}, "stop_sequence;nearest=stop_sequences"),
        ("/v1/messages/count_tokens", {"max_tokens": 1}, "max_tokens"),
        ("/api/chat", {"shift": True}, "shift"),
        ("/api/chat", {"options": {"num_gpu": 1, "seed": 1}}, "options.num_gpu"),
        (
            "/api/generate",
            {"options": {"temprature": 1, "seed": None}},
            "options.temprature;nearest=options.temperature",
        ),
        ("/completion", {"cache_prompt": True}, "cache_prompt"),
        ("/api/v0/chat/completions", {"store": True, "ttl": 60}, "store"),
    ],
)
async def test_fields_without_effect_are_named(
    daemon: RunningDaemon, path: str, fields: dict[str, Any], header: str
) -> None:
    assert await headers_of(daemon, path, **fields) == header


@pytest.mark.parametrize("tool", [1, None, "x", {"type": 1}, {"type": None}, [[]]])
async def test_tools_of_a_wrong_type_are_client_errors(daemon: RunningDaemon, tool: Any) -> None:
    for path in (CHAT, "/v1/responses", "/v1/messages"):
        body = {"model": "echo:1", **CALLS[path], "tools": [tool], "include": [], "options": []}
        assert (await daemon.tcp.post(path, json=body)).status_code in (200, 400)


async def test_a_number_out_of_range_is_a_client_error(daemon: RunningDaemon) -> None:
    for field in (b'"min_tokens":1e999', b'"tools":[{"type":"x","n":1e999}]', b'"x":1e999'):
        body = b'{"model":"echo:1","messages":[{"role":"user","content":"Hi"}],' + field + b"}"
        answer = await daemon.tcp.post(
            CHAT, content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (200, 400), answer.text


async def test_many_unknown_fields_make_a_short_header(daemon: RunningDaemon) -> None:
    header = await headers_of(daemon, CHAT, **{f"temperature_{i}": i for i in range(200)})
    assert header is not None
    assert (header.count(","), header.count(";nearest=temperature")) == (31, 4)


@pytest.mark.parametrize(
    ("path", "field", "refused", "harmless"),
    [
        (CHAT, "min_tokens", 3, 0),
        (CHAT, "bad_words", ["x"], []),
        (CHAT, "use_beam_search", True, False),
        (CHAT, "best_of", 2, 1),
        (CHAT, "echo", True, False),
        (CHAT, "chat_template", "{{ x }}", ""),
        (CHAT, "documents", ["x"], []),
        (CHAT, "skip_special_tokens", False, True),
        (CHAT, "add_special_tokens", True, False),
        ("/v1/completions", "add_special_tokens", False, True),
        ("/v1/completions", "truncate_prompt_tokens", 5, None),
        ("/v1/responses", "n", 2, 1),
        ("/v1/responses", "prompt_logprobs", 0, False),
        ("/v1/responses", "stop_token_ids", [1], []),
        ("/v1/responses", "min_tokens", 2, 0),
    ],
)
async def test_fields_that_would_change_the_answer_are_refused(
    daemon: RunningDaemon, path: str, field: str, refused: Any, harmless: Any
) -> None:
    body = {"model": "echo:1", **CALLS[path], field: refused}
    answer = await daemon.tcp.post(path, json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_field", field)
    assert await headers_of(daemon, path, **{field: harmless}) is None


@pytest.mark.parametrize("field", ["documents", "unknown"])
async def test_a_deeply_nested_field_is_a_client_error(daemon: RunningDaemon, field: str) -> None:
    body = b'{"model":"echo:1","messages":[{"role":"user","content":"Hi"}],"%b":%b%b}'
    for depth in (500, 5_000, 200_000):
        content = body % (field.encode(), b"[" * depth, b"]" * depth)
        answer = await daemon.tcp.post(
            CHAT, content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (200, 400), answer.text


async def test_fields_without_effect_are_counted_by_known_names(daemon: RunningDaemon) -> None:
    await headers_of(daemon, CHAT, verbosity="low", temprature=1, qqqq=1)
    await headers_of(daemon, CHAT, verbosity="low")
    await headers_of(daemon, "/api/chat", options={"num_gpu": 1, "gpus": 1})
    await headers_of(daemon, CHAT, tools=[{"type": "any name"}])
    lines = (await daemon.tcp.get("/metrics")).text.splitlines()
    counts = [line for line in lines if line.startswith("ingle_ignored_fields_total{")]
    assert sorted(counts) == [
        'ingle_ignored_fields_total{field="options.num_gpu"} 1.0',
        'ingle_ignored_fields_total{field="tools"} 1.0',
        'ingle_ignored_fields_total{field="unknown"} 3.0',
        'ingle_ignored_fields_total{field="verbosity"} 2.0',
    ]
