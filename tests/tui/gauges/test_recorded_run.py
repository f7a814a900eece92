"""The page map during a run of a daemon and model: two chats, one of them compacted."""

from __future__ import annotations

import asyncio
import os
import shutil
import sysconfig
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from textual.app import App, ComposeResult

from ingle.daemon.client.async_client import AsyncDaemonClient
from ingle.daemon.client.daemon_types import PagesEvent, Status
from ingle.tui.gauges.gauge_state import GaugeState
from ingle.tui.gauges.page_map_cells import PageState, chat_of, page_counts
from ingle.tui.widgets.gauges.page_map import PageMapView

pytestmark = pytest.mark.model

INGLE = str(Path(sysconfig.get_path("scripts")) / "ingle")
SYSTEM = {"role": "system", "content": "You plan trips for people with little time. " * 12}
MODEL = "smollm2:135m"


@pytest.fixture
async def daemon(smollm2_path: Path) -> AsyncIterator[AsyncDaemonClient]:
    home = (
        smollm2_path.parents[3] / f"page-map-{os.getpid()}"
    )  # hard links need the same file system
    shutil.copytree(
        smollm2_path.parents[2],
        home / "models",
        copy_function=os.link,
        ignore=shutil.ignore_patterns(".locks"),
    )
    socket = home / "ingle.sock"
    process = await asyncio.create_subprocess_exec(
        INGLE,
        *("serve", "--port", "0", "--socket", str(socket)),
        env={**os.environ, "INGLE_HOME": str(home)},
        stderr=asyncio.subprocess.DEVNULL,
    )
    client = AsyncDaemonClient(str(socket))
    async with asyncio.timeout(30):
        while not socket.exists():
            await asyncio.sleep(0.02)
    yield client
    process.terminate()
    await process.wait()
    shutil.rmtree(home)


class Recording:
    """Records the page maps of the event stream."""

    def __init__(self, client: AsyncDaemonClient) -> None:
        self._client = client
        self.pages: list[PagesEvent] = []

    async def run(self) -> None:
        path = f"/ingle/v1/events?pages={quote(MODEL, safe='')}"
        async with aclosing(self._client.events(path)) as events:
            async for event in events:
                if event.event == "pages":
                    self.pages.append(msgspec.json.decode(event.data, type=PagesEvent))

    async def until_idle(self) -> PagesEvent:
        """The page map once nothing runs and the gauges agree with it."""
        async with asyncio.timeout(30):
            while True:
                (model,) = (await self._client.request(Status, "GET", "/ingle/v1/status")).models
                if not model.running and self.pages:
                    last = self.pages[-1]
                    page_tokens = sum(group.tokens for group in last.groups)
                    # The last map arrives up to a quarter of a second after the gauges.
                    idle = not any(group.running for group in last.groups)
                    if idle and page_tokens == model.kv_used + model.kv_kept:
                        return last
                await asyncio.sleep(0.1)


async def answer(client: AsyncDaemonClient, label: str, *texts: str) -> str:
    """The model's answer in the chat of this label; texts alternate between user and model."""
    roles = ("user", "assistant")
    talk = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    body: dict[str, Any] = {"model": MODEL, "messages": [SYSTEM, *talk], "max_tokens": 24}
    body |= {"conversation": label, "sampling": {"temperature": 0}}
    created = await client.request_json("POST", "/ingle/v1/generations", body)
    words = ""
    path = f"/ingle/v1/generations/{created['id']}/events"
    async with aclosing(client.events(path)) as events:
        async for event in events:
            assert event.event != "error", event.data
            if event.event == "delta":
                words += msgspec.json.decode(event.data)["text"]
    return words


class MapApp(App[None]):
    CSS = "PageMapView { width: 16; }"

    def compose(self) -> ComposeResult:
        yield PageMapView(rows=40)


def expanded(event: PagesEvent, label: str) -> str:
    """The glyphs of all pages, one by one, derived from the event."""
    signs: list[str] = []
    for group, count in event.runs:
        if group < 0:
            signs += "·" * count
            continue
        labels = event.groups[group].conversations
        chats = {chat_of(name) for name in labels}
        if len(chats) > 1:
            signs += "◆" * count
        elif chats != {chat_of(label)}:
            signs += "▒" * count
        else:
            signs += ("█" if label in labels else "▲") * count
    return "".join(signs)


@pytest.mark.slow
async def test_drawn_page_map_matches_every_event(daemon: AsyncDaemonClient) -> None:
    body = {"model": MODEL, "context": 2048}
    await daemon.request_json("POST", "/ingle/v1/load", body)
    recording = Recording(daemon)
    following = asyncio.create_task(recording.run())
    for _ in range(5):  # shared pages may come and go between two maps
        tea = answer(daemon, "tea", "What is a good tea? " * 9)
        await asyncio.gather(first_turn(daemon), tea)
        if any("◆" in expanded(event, "kyoto") for event in recording.pages):
            break
    await answer(daemon, "kyoto@c1", "We spoke about spring in Kyoto. And autumn?")
    await recording.until_idle()
    following.cancel()
    assert len(recording.pages) >= 4  # at most four maps a second, on any machine
    async with MapApp().run_test(size=(40, 45)) as pilot:
        drawn = pilot.app.query_one(PageMapView)
        for event in recording.pages:
            assert sum(count for _, count in event.runs) == event.pages
            for label in ("kyoto", "kyoto@c1", "tea"):
                drawn.show(GaugeState(pages=event, label=label))
                await pilot.pause(0.1)
                text = str(drawn.render()).replace("\n", "")
                assert text == expanded(event, label)
                counts = page_counts(event, label)
                assert counts == {state: text.count(state.glyph) for state in PageState}
    seen = "".join(expanded(event, "kyoto") for event in recording.pages)
    assert {"◆", "█", "▒", "·"} <= set(seen)


async def first_turn(daemon: AsyncDaemonClient) -> None:
    """Two prompts in one chat, while another chat is answered."""
    question = "Tell me about Kyoto in spring. " * 6
    reply = await answer(daemon, "kyoto", question)
    await answer(daemon, "kyoto", question, reply, "And what in the rain?")
