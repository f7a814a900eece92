"""Tools in the chat: calls of the model run by a scripted host, over real pipes."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.tui.chats.chat import Chat as ChatTree
from ingle.tui.chats.chat import ChatSettings
from ingle.tui.chats.context_view import TOOL_ADVICE
from ingle.tui.chats.message import Message, MessageFacts, RequestedCall
from ingle.tui.screens.consent_screen import ConsentScreen
from ingle.tui.settings.chat_folders import ChatFolders
from ingle.tui.tools.tool_rounds import ROUNDS
from ingle.tui.transcript.entries.step_entry import StepEntry
from tests.harness.scripted_tool_host import COMMAND

from .test_privacy_feature import CLOUD, DRAFT

if TYPE_CHECKING:
    from ..conftest import Chat, FakeDaemon, OpenChat

READ = ("read", json.dumps({"path": "notes.txt"}))
EDIT = ("edit", json.dumps({"path": "notes.txt"}))
WAIT = ("run", json.dumps({"command": "wait"}))

OpenTools = Callable[..., AbstractAsyncContextManager["Chat"]]


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the folder in which the chat is opened."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "notes.txt").write_text("old\n")
    return folder / "notes.txt"


@pytest.fixture
def open_tools(open_chat: OpenChat, tmp_path: Path, notes: Path) -> OpenTools:
    """Open a kept chat, with tools switched on unless `on` is False."""
    folders = ChatFolders(tmp_path / "chats", tmp_path / "config")

    @asynccontextmanager
    async def opened(*, on: bool = True, **options: Any) -> AsyncGenerator[Chat]:
        async with open_chat((100, 40), folders=folders, tool_host=COMMAND, **options) as chat:
            if on:
                await chat.send("/tools on")
                await chat.until_shown("4 tools")
            yield chat

    return opened


async def asked(chat: Chat) -> ConsentScreen:
    await chat.until(lambda: isinstance(chat.app.screen, ConsentScreen))
    assert isinstance(chat.app.screen, ConsentScreen)
    return chat.app.screen


async def until_answered(chat: Chat, text: str) -> None:
    await chat.until_shown(text)
    await chat.until(lambda: not chat.screen.is_answering)


def content(path: Path) -> str:
    return path.read_text()


def fill(path: Path, text: str) -> None:
    path.write_text(text)


def steps(chat: Chat) -> list[StepEntry]:
    return [entry for entry in chat.transcript.entries if isinstance(entry, StepEntry)]


async def test_a_chat_without_tools_offers_none(
    open_tools: OpenTools, fake_daemon: FakeDaemon
) -> None:
    async with open_tools(on=False) as chat:
        await chat.send("Hi")
        await until_answered(chat, "Hello there.")
        assert "TOOLS" not in chat.screen_text
    request = next(r for r in fake_daemon.requests if r.target == "/ingle/v1/generations")
    assert "tools" not in request.body


async def test_results_go_back_to_the_model_until_it_answers(
    open_tools: OpenTools, fake_daemon: FakeDaemon, notes: Path
) -> None:
    fake_daemon.script(calls=[READ, EDIT])
    fake_daemon.script("I changed it.")
    async with open_tools() as chat:
        assert "TOOLS" in chat.screen_text
        assert "/project · 4 tools" in chat.screen_text
        await chat.send("Mend the notes")
        question = await asked(chat)
        assert "Nothing leaves this machine." in chat.screen_text
        assert "+new" in chat.screen_text
        await chat.pilot.press("enter")
        assert chat.app.screen is question
        await chat.pilot.press("y")
        await until_answered(chat, "I changed it.")
        assert "✓ read" in chat.screen_text
        assert "✓ edit  edited notes.txt" in chat.screen_text
    assert content(notes) == "new\n"
    sent = fake_daemon.prompts[-1]
    assert sent.pop(0) == {"role": "system", "content": TOOL_ADVICE}
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"]
    calls = sent[1]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["read", "edit"]
    assert calls[0]["function"]["arguments"] == READ[1]
    assert [message["tool_call_id"] for message in sent[2:]] == [call["id"] for call in calls]
    assert sent[2]["content"] == "old\n"
    offered = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"][-1]
    names = [tool["function"]["name"] for tool in offered["tools"]]
    assert names == ["read", "edit", "run", "die"]


async def test_escape_declines_one_call_and_always_holds_for_the_chat(
    open_tools: OpenTools, fake_daemon: FakeDaemon, notes: Path
) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("Done.")
    async with open_tools() as chat:
        await chat.send("Mend the notes")
        await asked(chat)
        await chat.pilot.press("escape")
        await chat.until(lambda: len(steps(chat)) == 2)
        assert content(notes) == "old\n"
        await asked(chat)
        await chat.pilot.press("a")
        await until_answered(chat, "Done.")
        assert chat.screen.chat.settings.consents == {"edit": "always"}
    assert content(notes) == "new\n"
    assert "declined" in fake_daemon.prompts[1][-1]["content"]


@pytest.mark.slow
async def test_an_unknown_tool_is_an_answer_to_the_model(
    open_tools: OpenTools, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script(calls=[("wirte", "{")])
    fake_daemon.script("Sorry.")
    async with open_tools() as chat:
        await chat.send("Mend the notes")
        await until_answered(chat, "Sorry.")
        assert "✗ wirte" in chat.screen_text
    assert "The tools are: read" in fake_daemon.prompts[-1][-1]["content"]


async def test_escape_ends_the_call_and_the_turn(
    open_tools: OpenTools, fake_daemon: FakeDaemon, notes: Path
) -> None:
    fake_daemon.script(calls=[WAIT, READ])
    async with open_tools() as chat:
        await chat.send("Run it")
        await asked(chat)
        await chat.pilot.press("y")
        await chat.until_shown("… run  one")
        assert "esc stops" in chat.screen_text
        await chat.pilot.press("escape")
        await chat.until(lambda: not chat.screen.is_answering)
        await chat.until((notes.parent / "cancelled").exists)
        await chat.until(lambda: len(steps(chat)) == 2)
        await chat.send("And now?")
        await until_answered(chat, "Hello there.")
    sent = fake_daemon.prompts[-1]
    roles = ["system", "user", "assistant", "tool", "tool", "user"]
    assert [message["role"] for message in sent] == roles
    assert all("stopped" in message["content"] for message in sent[3:5])


async def test_a_prompt_waits_until_the_calls_have_run(
    open_tools: OpenTools, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("First.")
    fake_daemon.script("Second.")
    async with open_tools() as chat:
        await chat.send("One")
        question = await asked(chat)
        chat.screen.send("Two")
        await chat.pilot.pause()
        assert chat.app.screen is question
        await chat.pilot.press("y")
        await until_answered(chat, "Second.")
    assert fake_daemon.prompts[-1][-2:] == [
        {"role": "assistant", "content": "First."},
        {"role": "user", "content": "Two"},
    ]


async def test_a_host_that_ends_is_a_result_and_starts_again(
    open_tools: OpenTools, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script(calls=[("die", "{}")])
    fake_daemon.script(calls=[READ])
    fake_daemon.script("Read it.")
    async with open_tools() as chat:
        await chat.send("Go")
        await until_answered(chat, "Read it.")
        assert "✗ die" in chat.screen_text
        assert "✓ read" in chat.screen_text
    assert "out of cheese" in fake_daemon.prompts[1][-1]["content"]


@pytest.mark.slow
async def test_the_user_is_asked_whether_many_rounds_go_on(
    open_tools: OpenTools, fake_daemon: FakeDaemon
) -> None:
    for _ in range(ROUNDS):
        fake_daemon.script(calls=[READ])
    async with open_tools() as chat:
        await chat.send("Go")
        await chat.until_shown("Let the model go on?")
        assert len(fake_daemon.prompts) == ROUNDS
        await chat.pilot.press("escape")
        await chat.until(lambda: not chat.screen.is_answering)
        await chat.send("/continue")
        await until_answered(chat, "Hello there.")


async def test_an_edit_is_undone_and_the_model_learns_of_it(
    open_tools: OpenTools, fake_daemon: FakeDaemon, notes: Path
) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("Done.")
    async with open_tools() as chat:
        await chat.send("Mend the notes")
        await asked(chat)
        await chat.pilot.press("y")
        await until_answered(chat, "Done.")
        await chat.pilot.press("alt+up", "up", "u")
        await chat.until_shown("undone")
        assert content(notes) == "old\n"
        await chat.pilot.press("escape")
        await chat.send("/undo")
        await chat.until_notified("no compaction")
        await chat.send("Go on")
        await until_answered(chat, "Hello there.")
    result = next(m for m in fake_daemon.prompts[-1] if m["role"] == "tool")
    assert "undone" in result["content"]


async def test_steps_unfold_to_their_diff(open_tools: OpenTools, fake_daemon: FakeDaemon) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("Done.")
    async with open_tools() as chat:
        await chat.send("Mend the notes")
        await asked(chat)
        await chat.pilot.press("y")
        await until_answered(chat, "Done.")
        assert "+new" not in chat.screen_text
        await chat.pilot.press("alt+up", "up", "z")
        await chat.until_shown("+new")
        assert "path: notes.txt" in chat.screen_text


async def test_a_chat_that_was_left_resumes_with_its_steps(
    open_tools: OpenTools, fake_daemon: FakeDaemon
) -> None:
    fake_daemon.script(calls=[READ])
    fake_daemon.script("Read it.")
    async with open_tools() as chat:
        await chat.send("Go")
        await until_answered(chat, "Read it.")
        name = chat.screen.chat.id
    async with open_tools(on=False) as chat:
        store = chat.screen.store
        assert store is not None
        await chat.until(lambda: store.load(name) is not None)  # it is written in a thread
        kept = store.load(name)
        assert kept is not None
        chat.screen.open_chat(kept)
        await chat.until_shown("4 tools")
        await chat.until_shown("✓ read  read notes.txt")
        assert [(hit.role, hit.snippet.text, hit.message) for hit in store.search("old", 5)] == [
            ("tool", "old", chat.screen.chat.path[2].id)
        ]
        await chat.send("Again?")
        await until_answered(chat, "Hello there.")
    assert [m["role"] for m in fake_daemon.prompts[-1]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


async def test_the_output_of_a_typed_command_goes_into_the_prompt(
    open_tools: OpenTools, fake_daemon: FakeDaemon
) -> None:
    async with open_tools(on=False) as chat:
        await chat.send("!make test")
        await chat.until(lambda: "[$ make test]" in chat.draft)
        await chat.until_shown("▏ two")
        await chat.send(f"{chat.draft}What is wrong?")
        await until_answered(chat, "Hello there.")
    (prompt,) = fake_daemon.prompts[-1]
    assert "one\ntwo" in prompt["content"]


async def test_an_added_server_is_kept(open_tools: OpenTools, tmp_path: Path) -> None:
    async with open_tools() as chat:
        await chat.send("/mcp add files npx -y server 'a b'")
        await chat.until_notified("files is added")
        await chat.send("/mcp")
        await chat.until_shown("files")
        file = tmp_path / "config" / "mcp.json"
        entry = {"command": "npx", "args": ["-y", "server", "a b"]}
        assert json.loads(file.read_text()) == {"mcpServers": {"files": entry}}
        await chat.pilot.press("escape")
        await chat.send("/mcp add files another")
        await chat.until_notified("There is a server files already.")
        await chat.send("/mcp remove files")
        await chat.until_notified("files is removed.")
        await chat.send("/mcp")
        await chat.until_notified("There is no MCP server.")
        assert json.loads(file.read_text()) == {"mcpServers": {}}


@pytest.mark.slow
async def test_calls_after_which_the_chat_was_killed_are_run_on_demand(
    open_tools: OpenTools, fake_daemon: FakeDaemon, notes: Path
) -> None:
    tree = ChatTree(ChatSettings(tools=str(notes.parent)))
    prompt = tree.add(Message(role="user", content="Go"))
    facts = MessageFacts(calls=(RequestedCall("c", *READ),))
    tree.add(Message(role="assistant", parent=prompt.id, ending="answered", facts=facts))
    async with open_tools(on=False) as chat:
        chat.screen.open_chat(tree)
        await chat.until_shown("not finished")
        await chat.send("/continue")
        await until_answered(chat, "Hello there.")
        assert "not finished" not in chat.screen_text
        assert "✓ read" in chat.screen_text
    assert fake_daemon.prompts[-1][-1]["content"] == "old\n"


async def test_a_private_result_is_not_sent_from_this_machine(
    open_tools: OpenTools, fake_daemon: FakeDaemon, notes: Path
) -> None:
    fill(notes, DRAFT)
    fake_daemon.routing = CLOUD
    fake_daemon.route_for_real("acme")
    fake_daemon.script(calls=[READ])
    async with open_tools() as chat:
        chat.screen.chat.settings.route = "auto"
        await chat.send("What is the capital of France?")
        await chat.until(lambda: "May acme/big see this?" in chat.screen_text, 60)
        assert "Write to [EMAIL_1] and pay to [IBAN_1]." in chat.screen_text
        await chat.pilot.press("enter")
        await until_answered(chat, "Hello there.")
    asked = [r.body for r in fake_daemon.requests if r.target == "/ingle/v1/generations"]
    assert [body["route"] for body in asked] == ["auto", "local"]
    assert asked[1]["messages"][-1]["content"] == DRAFT
