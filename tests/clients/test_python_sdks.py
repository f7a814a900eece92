"""The common Python SDKs for model servers, against the daemon."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import BaseModel, SecretStr

if TYPE_CHECKING:
    import anthropic
    import openai
    from anthropic.types import MessageParam, ToolParam
    from langchain_core.messages import AIMessageChunk
    from langchain_openai import ChatOpenAI
    from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
    from openai.types.responses import FunctionToolParam
    from pydantic_ai.providers.openai import OpenAIProvider

    from .conftest import Daemon

    NewChat = Callable[..., ChatOpenAI]

pytestmark = [pytest.mark.model, pytest.mark.slow]

CAPITAL = "What is the capital of France?"
PARIS = "The capital of France is Paris."
QUESTION = "What is the weather in Ghent?"
WEATHER = "drizzle-17"
ANSWER = "In Ghent it is drizzle-17."
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    assert city == "Ghent"
    return WEATHER


@pytest.fixture(scope="module")
def weather_model(daemon: Daemon) -> str:
    """A scripted model that calls the weather tool, then answers with its result."""
    call = {"name": "weather", "arguments": {"city": "Ghent"}}
    return daemon.install_scripted(
        "forecaster",
        first=f"<tool_call>\n{json.dumps(call)}\n</tool_call>",
        after={WEATHER: ANSWER},
    )


@pytest.fixture
def client(daemon: Daemon) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.slow
def test_openai_streams(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": CAPITAL}],
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(piece or "" for piece in pieces) == PARIS
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8


def test_openai_calls_a_tool(client: openai.OpenAI, weather_model: str) -> None:
    tools: list[ChatCompletionToolParam] = [
        {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    ]
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": QUESTION}]
    with client.chat.completions.stream(
        model=weather_model, messages=messages, tools=tools
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.tool_calls
    (call,) = message.tool_calls
    messages.append(
        {
            "role": "assistant",
            "content": message.content,
            "tool_calls": [
                {
                    "type": "function",
                    "id": call.id,
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
            ],
        }
    )
    result = weather(**json.loads(call.function.arguments))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    done = client.chat.completions.create(model=weather_model, messages=messages, tools=tools)
    assert done.choices[0].message.content == ANSWER


def test_openai_lists_completes_and_embeds(client: openai.OpenAI, weather_model: str) -> None:
    assert {"smollm2:135m", weather_model} <= {model.id for model in client.models.list()}
    done = client.completions.create(
        model="smollm2", prompt="The capital of France is", max_tokens=2, temperature=0
    )
    assert "Paris" in done.choices[0].text


def test_openai_responses_streams(client: openai.OpenAI) -> None:
    with client.responses.stream(model="smollm2", input=CAPITAL, temperature=0) as stream:
        pieces = [e.delta for e in stream if e.type == "response.output_text.delta"]
        response = stream.get_final_response()
    assert "".join(pieces) == response.output_text == PARIS
    assert len(pieces) > 1


def test_openai_responses_calls_a_tool(client: openai.OpenAI, weather_model: str) -> None:
    tools: list[FunctionToolParam] = [
        {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
    ]
    with client.responses.stream(model=weather_model, input=QUESTION, tools=tools) as stream:
        response = stream.get_final_response()
    (call,) = [item for item in response.output if item.type == "function_call"]
    result = weather(**json.loads(call.arguments))
    answer = client.responses.create(
        model=weather_model,
        previous_response_id=response.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": result}],
        tools=tools,
    )
    assert answer.output_text == ANSWER


@pytest.fixture
def anthropic_client(daemon: Daemon) -> Iterator[anthropic.Anthropic]:
    import anthropic

    with anthropic.Anthropic(base_url=daemon.url, api_key="none", max_retries=0) as client:
        yield client


def test_anthropic_streams(anthropic_client: anthropic.Anthropic) -> None:
    with anthropic_client.messages.stream(
        model="smollm2", max_tokens=64, messages=[{"role": "user", "content": CAPITAL}]
    ) as stream:
        pieces = list(stream.text_stream)
        message = stream.get_final_message()
    assert "Paris" in "".join(pieces)
    assert len(pieces) > 1
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 1


def test_anthropic_calls_a_tool(anthropic_client: anthropic.Anthropic, weather_model: str) -> None:
    tools: list[ToolParam] = [{"name": "weather", "input_schema": SCHEMA}]
    messages: list[MessageParam] = [{"role": "user", "content": QUESTION}]
    with anthropic_client.messages.stream(
        model=weather_model, max_tokens=500, messages=messages, tools=tools
    ) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use"
    (call,) = [block for block in message.content if block.type == "tool_use"]
    assert call.input == {"city": "Ghent"}
    messages.append({"role": "assistant", "content": message.content})
    result = weather(**cast(Any, call.input))
    messages.append(
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": result}],
        }
    )
    answer = anthropic_client.messages.create(
        model=weather_model, max_tokens=500, messages=messages, tools=tools
    )
    (block,) = answer.content
    assert block.type == "text"
    assert block.text == ANSWER


def test_anthropic_counts_and_lists(
    anthropic_client: anthropic.Anthropic, weather_model: str
) -> None:
    counted = anthropic_client.messages.count_tokens(
        model="smollm2", messages=[{"role": "user", "content": CAPITAL}]
    )
    assert counted.input_tokens > 7
    assert weather_model in {model.id for model in anthropic_client.models.list()}


@pytest.fixture
def ollama_client(daemon: Daemon) -> Iterator[Any]:
    """Untyped, since its types do not cover the tool results."""
    import ollama

    new_client: Any = ollama.Client
    with new_client(host=daemon.url) as client:
        yield client


def test_ollama_streams(ollama_client: Any) -> None:
    parts = ollama_client.chat(
        "smollm2",
        messages=[{"role": "user", "content": CAPITAL}],
        stream=True,
        options={"temperature": 0},
    )
    pieces = [part.message.content or "" for part in parts]
    assert "".join(pieces) == PARIS
    assert len(pieces) > 1


def _tool_calls(parts: list[Any]) -> list[Any]:
    return [call for part in parts for call in part.message.tool_calls or ()]


def test_ollama_calls_a_tool(ollama_client: Any, weather_model: str) -> None:
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    parts = list(ollama_client.chat(weather_model, messages=messages, tools=[weather], stream=True))
    (call,) = _tool_calls(parts)
    messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    result = weather(**call.function.arguments)
    messages.append({"role": "tool", "tool_name": call.function.name, "content": result})
    answer = ollama_client.chat(weather_model, messages=messages, tools=[weather])
    assert answer.message.content == ANSWER


def test_ollama_lists_shows_and_generates(ollama_client: Any, weather_model: str) -> None:
    assert weather_model in {model.model for model in ollama_client.list().models}
    assert "completion" in (ollama_client.show("smollm2").capabilities or [])
    assert "tools" in (ollama_client.show(weather_model).capabilities or [])
    assert (
        "Paris" in ollama_client.generate("smollm2", CAPITAL, options={"temperature": 0}).response
    )
    assert "smollm2:135m" in {model.model for model in ollama_client.ps().models}


@pytest.fixture
def new_chat(daemon: Daemon) -> Iterator[NewChat]:
    """Makes langchain chat models over connections that the fixture closes."""
    import openai
    from langchain_openai import ChatOpenAI

    with openai.DefaultHttpxClient() as http:

        def new(model: str, **more: Any) -> ChatOpenAI:
            return ChatOpenAI(
                base_url=f"{daemon.url}/v1",
                api_key=SecretStr("none"),
                model=model,
                http_client=http,
                **more,
            )

        yield new


def test_langchain_streams(new_chat: NewChat) -> None:
    pieces = [chunk.text for chunk in new_chat("smollm2", temperature=0).stream(CAPITAL)]
    assert "".join(pieces) == PARIS
    assert len(pieces) > 1


@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
def test_langchain_calls_a_tool(new_chat: NewChat, weather_model: str, *, responses: bool) -> None:
    from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage

    chat: Any = new_chat(weather_model, use_responses_api=responses)
    bound = chat.bind_tools([weather])
    asked = HumanMessage(QUESTION)
    whole: AIMessageChunk | None = None
    for chunk in bound.stream([asked]):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    (call,) = whole.tool_calls
    result = ToolMessage(weather(**call["args"]), tool_call_id=call["id"] or "")
    answer = bound.invoke([asked, whole, result])
    assert answer.text == ANSWER


def test_langchain_embeds(daemon: Daemon, minilm_path: Path) -> None:
    import openai
    from langchain_openai import OpenAIEmbeddings

    daemon.install(minilm_path)
    with openai.DefaultHttpxClient() as http:
        embeddings = OpenAIEmbeddings(
            base_url=f"{daemon.url}/v1",
            api_key=SecretStr("none"),
            model="all-minilm",
            check_embedding_ctx_length=False,
            http_client=http,
        )
        vectors = embeddings.embed_documents(["a cat", "a kitten"])
    assert [len(vector) for vector in vectors] == [384, 384]


@pytest.fixture
async def provider(daemon: Daemon) -> AsyncIterator[OpenAIProvider]:
    """pydantic-ai's provider for the daemon, over connections that the fixture closes."""
    import openai
    from pydantic_ai.providers.openai import OpenAIProvider

    async with openai.AsyncOpenAI(
        base_url=f"{daemon.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield OpenAIProvider(openai_client=client)


@pytest.mark.slow
async def test_pydantic_ai_streams(provider: OpenAIProvider) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel

    agent = Agent(OpenAIChatModel("smollm2", provider=provider))
    async with agent.run_stream(CAPITAL, model_settings={"temperature": 0}) as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == PARIS
    assert len(pieces) > 1


@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
async def test_pydantic_ai_calls_a_tool(
    provider: OpenAIProvider, weather_model: str, *, responses: bool
) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel

    kind = OpenAIResponsesModel if responses else OpenAIChatModel
    agent = Agent(kind(weather_model, provider=provider))
    agent.tool_plain(weather)
    assert (await agent.run(QUESTION)).output == ANSWER


class Capital(BaseModel):
    """The output type of the agent."""

    city: str


@pytest.mark.slow
async def test_pydantic_ai_gets_objects(provider: OpenAIProvider) -> None:
    """The answer is a tool call, which SmolLM2 is not trained for: the grammar forces it."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel

    agent = Agent(OpenAIChatModel("smollm2", provider=provider), output_type=Capital)
    answer = await agent.run(CAPITAL, model_settings={"temperature": 0, "max_tokens": 200})
    assert isinstance(answer.output.city, str)
