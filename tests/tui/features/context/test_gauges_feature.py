"""The gauges in the chat: panel, page map, token counts, context table, and prefill costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from textual.app import App
from textual.widgets import OptionList

from ingle.daemon.client.daemon_types import PagesEvent
from ingle.tui.app.chat_screen import ChatScreen
from ingle.tui.chats.message import Message, MessageFacts
from ingle.tui.features.context.gauges_feature import GaugesFeature
from ingle.tui.gauges.gauge_state import GaugeState
from ingle.tui.screens.context.context_table import ContextTable
from ingle.tui.screens.context.gauges_screen import GaugesScreen, PageMapScreen
from ingle.tui.screens.context.statistics_screen import StatisticsScreen
from ingle.tui.settings.preferences import Preferences
from ingle.tui.settings.themes import EMBER
from ingle.tui.widgets.gauges.gauge_panel import GaugePanel
from ingle.tui.widgets.gauges.lines_widget import LinesWidget
from ingle.tui.widgets.gauges.page_legend import PageTitle
from ingle.tui.widgets.gauges.page_map import PageMapView
from ingle.tui.widgets.status_line import StatusLine

from ....harness.fake_daemon import page_map

if TYPE_CHECKING:
    from ...conftest import Chat, FakeDaemon, OpenChat

MODEL = "smollm2:135m"
GIB = 2**30

FULL = Preferences(gauges=True)


def gauges(**changes: object) -> dict[str, Any]:
    """A `gauges` event as the daemon sends it, from a machine with a GPU."""
    model: dict[str, Any] = {
        "name": MODEL,
        "state": "ready",
        "device": "RTX 4070, 30 of 30 layers",
        "context": 8192,
        "kv_capacity": 8192,
        "kv_used": 818,
        "kv_kept": 300,
        "weights_bytes": 5 * GIB,
        "kv_bytes": 2 * GIB,
        "layers": 30,
        "layers_on_gpu": 30,
    }
    gpu = {
        "name": "RTX 4070",
        "kind": "gpu",
        "memory_total": 12 * GIB,
        "memory_used": 8 * GIB,
        "watts": 142.0,
    }
    memory = {"total": 32 * GIB, "available": 18 * GIB, "daemon_rss": 0}
    return {"memory": memory, "models": [model | changes], "devices": [gpu]}


def event_requests(daemon: FakeDaemon) -> list[str]:
    targets = [request.target for request in daemon.requests]
    return [target for target in targets if target.startswith("/ingle/v1/events")]


def page_streams(daemon: FakeDaemon) -> list[str]:
    return [target for target in event_requests(daemon) if "pages=" in target]


async def feature_with_gauges(chat: Chat, daemon: FakeDaemon, **changes: object) -> GaugesFeature:
    """The gauges feature, after a `gauges` event arrived."""
    feature = chat.screen.feature(GaugesFeature)
    await chat.until(lambda: chat.screen.state.connected)
    daemon.broadcast("gauges", gauges(**changes))
    await chat.until(lambda: feature.state.loaded is not None)
    return feature


@pytest.mark.slow
async def test_panel_shows_memory_pages_and_models(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("RTX 4070 · 12.0 GiB")
        assert "█ weights 5.0" in chat.screen_text
        assert "▒ other 1.0" in chat.screen_text
        assert "14.0 GiB of 32.0 GiB used" in chat.screen_text
        await chat.until_shown("◆ shared 128")
        await chat.until_shown("▒ reusable 1 024")  # the test's map has no pages of this chat
        assert "on disk 2 048 tok" in chat.screen_text
        assert "142 W" in chat.screen_text
        assert "● smollm2:135m" in chat.screen_text
        assert "sent to cloud: 0" in chat.screen_text
    assert page_streams(fake_daemon) == [f"/ingle/v1/events?pages={MODEL.replace(':', '%3A')}"]


@pytest.mark.slow
async def test_pages_with_the_chats_label_are_this_chats(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        name = chat.screen.chat.id
        groups = fake_daemon.pages["groups"]
        groups[0]["conversations"] = [name, "other"]
        groups[1]["conversations"] = [name]
        await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("█ this chat 704")
        assert "◆ shared 128" in chat.screen_text


async def test_small_screen_has_no_panel_and_no_page_stream(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(80, 24), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("0 / 8 192")
        assert "VRAM" not in chat.screen_text
        assert chat.app.screen.query_one(StatusLine).size.height == 1
    assert page_streams(fake_daemon) == []


@pytest.mark.slow
async def test_tall_narrow_screen_has_a_second_status_line(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(80, 30), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("8.0/12.0 GiB")
        assert "kv █▒" in chat.screen_text
        assert "1 118/8 192" in chat.screen_text
        await chat.pilot.press("f4")
        await chat.until(lambda: isinstance(chat.app.screen, GaugesScreen))
        await chat.pilot.press("f4")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen))
        await chat.until(lambda: "8.0/12.0" not in chat.screen_text)


@pytest.mark.slow
async def test_f4_cycles_gauges_side_full_screen_off(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        feature = await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("◆ shared 128")
        await chat.pilot.press("f4")
        await chat.until(lambda: isinstance(chat.app.screen, GaugesScreen))
        await chat.until_shown("F4: gauges off")
        await chat.until_shown("RTX 4070")
        await chat.pilot.press("f4")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen))
        assert feature.mode == "off"
        await chat.until(lambda: "VRAM" not in chat.screen_text)
        paged = f"/ingle/v1/events?pages={MODEL.replace(':', '%3A')}"
        plain = "/ingle/v1/events"
        await chat.until(lambda: chat.screen.link.connected)
        await chat.until(lambda: event_requests(fake_daemon) == [plain, paged, plain])
        await chat.pilot.press("f4")
        await chat.until_shown("VRAM")
        assert feature.mode == "side"
        assert chat.screen.query_one(GaugePanel).size.width == 34


@pytest.mark.slow
async def test_unchanged_gauges_are_not_repainted(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        feature = await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("◆ shared 128")
        feature.draw()
        await chat.pilot.pause()
        lines = list(chat.screen.query(LinesWidget))
        before = [line.repaints for line in lines]
        assert feature.state.gauges is not None
        same = feature.state.gauges
        for _ in range(5):
            feature.on_report(same)
            assert feature.state.pages is not None
            feature.on_report(feature.state.pages)
            feature.draw()
            await chat.pilot.pause()
        assert [line.repaints for line in lines] == before


@pytest.mark.slow
async def test_frequent_events_are_coalesced_into_one_draw(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        feature = await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("VRAM")
        feature.draw()  # nothing is left to be drawn
        drawn = 0
        original = feature.draw

        def counted() -> None:
            nonlocal drawn
            drawn += 1
            original()

        feature.draw = counted
        assert feature.state.gauges is not None
        for _ in range(50):
            feature.on_report(feature.state.gauges)
        await chat.until(lambda: drawn)
        assert drawn == 1


async def test_title_of_the_map_fits_the_size_that_the_map_gets() -> None:
    """The map is laid out after it is drawn for the first time, which may stay the only time."""
    event = msgspec.convert(page_map(pages=2048), PagesEvent)
    app: App[None] = App()
    app.register_theme(EMBER)
    app.theme = EMBER.name
    async with app.run_test(size=(120, 40)) as pilot:
        screen = PageMapScreen()
        await app.push_screen(screen)
        screen.show(GaugeState(pages=event))
        title = ""
        for _ in range(1000):
            title = str(screen.query_one(PageTitle).render())
            if title.endswith("1 cell = 1 page of 32 tokens"):
                break
            await pilot.pause(0.01)
        else:
            pytest.fail(title)


@pytest.mark.slow
async def test_page_map_explains_its_cells(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat(size=(100, 30), preferences=FULL) as chat:
        name = chat.screen.chat.id
        fake_daemon.pages["groups"][1]["conversations"] = [name]
        await feature_with_gauges(chat, fake_daemon)
        await chat.send("/kv")
        await chat.until(lambda: isinstance(chat.app.screen, PageMapScreen))
        await chat.until_shown("KV CACHE")
        await chat.until_shown("█ this chat 704")
        await chat.pilot.press("home")
        await chat.until_shown("page 0: the beginning of 2 other chats, tokens 0–31, in use now")
        await chat.pilot.press(*["right"] * 4)
        await chat.until_shown("page 4: this chat, tokens 128–159, in use now")
        await chat.pilot.press("enter")
        await chat.until_shown("this chat: 690 tokens in all")
        await chat.pilot.press("end")
        await chat.until_shown("page 255: free")
        await chat.pilot.hover(PageMapView, offset=(30, 0))
        await chat.until_shown("page 30: another chat")
        await chat.pilot.press("escape")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen))


@pytest.mark.slow
async def test_evicted_pages_flash_once_and_are_counted(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        feature = await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("◆ shared 128")
        runs = [[0, 4], [1, 22], [-1, 4], [2, 6], [-1, 220]]
        fake_daemon.broadcast("pages", fake_daemon.pages | {"runs": runs, "evicted_pages_total": 4})
        await chat.until_shown("× evicted 128")
        await chat.until(
            lambda: "×" in str(chat.screen.query_one("GaugePanel PageMapView").render())
        )
        await chat.until(
            lambda: "×" not in str(chat.screen.query_one("GaugePanel PageMapView").render())
        )
        assert feature.state.evicted == 4


def add_turn(chat: Chat, prompt: str, answer: str, **facts: Any) -> None:
    tree = chat.screen.chat
    parent = tree.leaf.id if tree.leaf else None
    prompt_message = tree.add(Message(role="user", content=prompt, parent=parent))
    answer_message = Message(
        role="assistant", content=answer, parent=prompt_message.id, ending="answered"
    )
    answer_message.model = MODEL
    answer_message.facts = MessageFacts(**facts)
    tree.add(answer_message)


@pytest.mark.slow
async def test_token_counts_become_exact_when_idle(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 30), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        add_turn(chat, "one two three", "four five")
        chat.screen.show_path()
        feature = chat.screen.feature(GaugesFeature)
        await chat.until(lambda: feature.state.use.used and feature.state.use.exact)
        # This daemon counts a token for each word, four more for each message, and three in all.
        assert feature.state.use.used == 3 + 7 + 6
        await chat.until_shown("16 / 8 192")
        chat.screen.show_path()
        await chat.until(lambda: feature.state.use.exact)
    asked = [request for request in fake_daemon.requests if request.target == "/ingle/v1/tokens"]
    assert len(asked) == 1


@pytest.mark.slow
async def test_exact_token_counts_wait_for_the_model(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 30), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon, state="starting")
        add_turn(chat, "one two three", "four five")
        chat.screen.show_path()
        feature = chat.screen.feature(GaugesFeature)
        await chat.until(lambda: feature.state.use.used)
        assert not feature.state.use.exact
        await chat.until_shown("≈ ")
        fake_daemon.broadcast("gauges", gauges())
        await chat.until(lambda: feature.state.use.exact)


async def test_token_count_of_the_engine_is_shown_immediately(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 30), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        fake_daemon.script("The ", "answer.")
        await chat.send("A question?")
        await chat.until_shown("22 / 8 192")
        await chat.until_shown("last send: 40 % reused, 12 new")


async def test_context_table_lists_every_message(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(110, 34), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        chat.screen.chat.settings.system = "Be brief."
        add_turn(chat, "short", "a long answer " * 50)
        add_turn(chat, "another", "yes")
        chat.screen.show_path()
        await chat.send("/context")
        await chat.until(lambda: isinstance(chat.app.screen, ContextTable))
        await chat.until_shown("5 messages are sent")
        table = chat.app.screen
        assert isinstance(table, ContextTable)
        assert table.rows[0].text.startswith("a long answer")
        assert "/compact saves about" in chat.screen_text
        await chat.pilot.press("o")
        assert [part.text for part in table.rows][:2] == ["Be brief.", "short"]
        chat.app.screen.query_one(OptionList).highlighted = 1
        await chat.pilot.press("enter")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen))


async def test_stats_show_the_last_answer(open_chat: OpenChat, fake_daemon: FakeDaemon) -> None:
    async with open_chat(size=(100, 34), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        await chat.send("/stats")
        await chat.until_shown("There are no figures before the first answer.")
        add_turn(chat, "a", "b", prompt_tokens=100, cached_tokens=90, completion_tokens=7)
        await chat.send("/stats")
        await chat.until(lambda: isinstance(chat.app.screen, StatisticsScreen))
        await chat.until_shown("90 % reused, 10 new")
        await chat.pilot.press("escape")


@pytest.mark.slow
async def test_prefill_cost_of_a_changed_system_prompt(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 34), preferences=FULL) as chat:
        feature = await feature_with_gauges(chat, fake_daemon, prompt_rate=100.0)
        await chat.send("word " * 40)
        await chat.until(lambda: chat.screen.turn is None and chat.screen.chat.messages)
        sent = fake_daemon.prompts[0]
        assert feature.prefill_cost(sent).tokens == 0
        text = "Be brief. " * 400
        price = feature.prefill_cost([{"role": "system", "content": text}, *sent])
        assert price.tokens > 900
        assert price.seconds is not None
        settings = chat.screen.chat.settings
        for key in ("escape", "enter"):
            chat.screen.run_command("system", text)
            await chat.until_shown("Change the system prompt of this chat?")
            await chat.until_shown("this prefills")
            assert settings.system == ""
            await chat.pilot.press(key)
        await chat.until(lambda: settings.system == text)


@pytest.mark.slow
async def test_expensive_system_prompt_change_is_confirmed(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(100, 34), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon, prompt_rate=50.0)
        await chat.send("word " * 400)
        await chat.until(lambda: chat.screen.turn is None and chat.screen.chat.messages)
        await chat.send("/system Be brief.")
        await chat.until_shown("Change the system prompt of this chat?")
        await chat.until_shown("With the next prompt this prefills")
        await chat.pilot.press("escape")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen))
        assert chat.screen.chat.settings.system == ""
        await chat.send("/system Be brief.")
        await chat.until_shown("Change the system prompt of this chat?")
        await chat.pilot.press("enter")
        await chat.until(lambda: chat.screen.chat.settings.system == "Be brief.")
        await chat.until_shown("The system prompt is set; this prefills")


async def test_all_gauges_can_be_scrolled_to_on_a_small_screen(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(60, 20), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        await chat.pilot.press("f4")
        await chat.until_shown("◆ shared 128")
        assert "sent to cloud" not in chat.screen_text
        await chat.pilot.press("pagedown", "pagedown", "pagedown")
        await chat.until_shown("sent to cloud")
        await chat.pilot.press("escape")
        await chat.until(lambda: isinstance(chat.app.screen, ChatScreen))


@pytest.mark.slow
async def test_page_map_in_the_panel_has_a_tooltip_for_each_cell(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("◆ shared 128")
        await chat.pilot.hover("GaugePanel PageMapView", offset=(1, 0))
        side = chat.screen.query_one("GaugePanel PageMapView")
        await chat.until(lambda: "pages 2–3: the beginning of 2 other chats" in str(side.tooltip))


@pytest.mark.slow
async def test_gauges_disappear_with_the_daemon_and_return(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        feature = await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("◆ shared 128")
        await fake_daemon.stop()
        await chat.until(lambda: not chat.screen.state.connected)
        await chat.until(lambda: "◆ shared 128" not in chat.screen_text)
        assert feature.state.gauges is None
        await fake_daemon.start()
        chat.screen.link.wake()
        await feature_with_gauges(chat, fake_daemon)
        await chat.until_shown("◆ shared 128")


async def test_panel_lists_downloads_until_they_end(
    open_chat: OpenChat, fake_daemon: FakeDaemon
) -> None:
    async with open_chat(size=(140, 45), preferences=FULL) as chat:
        await feature_with_gauges(chat, fake_daemon)
        pull = {"model": "gemma3:1b", "received": 41, "total": 100}
        fake_daemon.broadcast("pull", pull | {"status": "downloading"})
        await chat.until_shown("↓ gemma3:1b")
        await chat.until_shown("41 %")
        fake_daemon.broadcast("pull", pull | {"status": "failed"})
        await chat.until(lambda: "↓ gemma3:1b" not in chat.screen_text)
