"""The official OpenAI client: sync and async, TCP and unix sockets, with and without streams."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import openai

    from .conftest import RunningDaemon

    DaemonFactory = Callable[..., AbstractAsyncContextManager[RunningDaemon]]

REPLY = "Hello from the scripted model."
HI: list[Any] = [{"role": "user", "content": "Hi"}]


def transports(daemon: RunningDaemon, transport: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments for a sync and an async client."""
    import openai

    if transport == "tcp":
        return {"base_url": f"{daemon.base_url}/v1"}, {"base_url": f"{daemon.base_url}/v1"}
    # The HTTP library used by the client depends on its version.
    name = openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0]
    library: Any = importlib.import_module(name)
    uds = str(daemon.socket)
    return (
        {
            "base_url": "http://ingle/v1",
            "http_client": library.Client(transport=library.HTTPTransport(uds=uds)),
        },
        {
            "base_url": "http://ingle/v1",
            "http_client": library.AsyncClient(transport=library.AsyncHTTPTransport(uds=uds)),
        },
    )


def request_sync(client: openai.OpenAI) -> list[str]:
    complete = client.chat.completions.create(model="echo:1", messages=HI, n=2)
    streamed = client.chat.completions.create(
        model="echo:1", messages=HI, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(streamed)
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens > len(REPLY)
    plain = client.completions.create(model="echo:1", prompt="Hi", max_tokens=5)
    assert [model.id for model in client.models.list()] == ["echo:1"]
    assert client.models.retrieve("echo:1").id == "echo:1"
    return [
        *(choice.message.content or "" for choice in complete.choices),
        "".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
        plain.choices[0].text,
    ]


async def request_async(client: openai.AsyncOpenAI) -> list[str]:
    complete = await client.chat.completions.create(model="echo:1", messages=HI)
    streamed = await client.completions.create(model="echo:1", prompt="Hi", stream=True)
    text = "".join([chunk.choices[0].text async for chunk in streamed])
    async with client.chat.completions.stream(model="echo:1", messages=HI) as stream:
        final = await stream.get_final_completion()
    return [complete.choices[0].message.content or "", text, final.choices[0].message.content or ""]


@pytest.mark.parametrize("transport", ["tcp", "unix"])
async def test_openai_client_gets_complete_and_streamed_answers(
    daemon: RunningDaemon, transport: str
) -> None:
    import openai

    sync_arguments, async_arguments = transports(daemon, transport)
    with openai.OpenAI(api_key="none", max_retries=0, **sync_arguments) as client:
        answers = await asyncio.to_thread(request_sync, client)
    assert answers == [REPLY, REPLY, REPLY, "Hello"]
    async with openai.AsyncOpenAI(api_key="none", max_retries=0, **async_arguments) as client:
        assert await request_async(client) == [REPLY] * 3


async def test_errors_are_raised_as_openai_exceptions(daemon: RunningDaemon) -> None:
    import openai

    async with openai.AsyncOpenAI(
        api_key="none", max_retries=0, base_url=f"{daemon.base_url}/v1"
    ) as client:
        with pytest.raises(openai.NotFoundError, match="ingle pull smollm2") as missing:
            await client.chat.completions.create(model="smollm2", messages=HI)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as invalid:
            await client.chat.completions.create(model="echo:1", messages=HI, temperature=3)
        assert (invalid.value.param, invalid.value.type) == ("temperature", "invalid_request_error")


async def test_error_in_a_stream_is_raised_by_the_client(run_daemon: DaemonFactory) -> None:
    import openai

    from ingle.backends.worker.supervisor.worker_process import WorkerProcess

    async with (
        run_daemon(script={"die_at": 5}, create_backend=WorkerProcess) as daemon,
        openai.AsyncOpenAI(
            api_key="none", max_retries=0, base_url=f"{daemon.base_url}/v1"
        ) as client,
    ):
        stream = await client.chat.completions.create(model="echo:1", messages=HI, stream=True)
        received: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                received.append(chunk.choices[0].delta.content or "")

        with pytest.raises(openai.APIError) as died:
            await read()
        assert died.value.code == "worker_died"
        assert REPLY.startswith("".join(received))


async def test_eight_concurrent_streams(daemon: RunningDaemon) -> None:
    import openai

    async with openai.AsyncOpenAI(
        api_key="none", max_retries=0, base_url=f"{daemon.base_url}/v1"
    ) as client:

        async def stream_answer() -> str:
            stream = await client.chat.completions.create(model="echo:1", messages=HI, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        assert await asyncio.gather(*(stream_answer() for _ in range(8))) == [REPLY] * 8
