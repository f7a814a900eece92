"""Prompts of an editor: answers, tool calls, consent, cancellation, errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from acp import RequestError, embedded_text_resource, image_block, resource_block
from acp.helpers import resource_link_block

from ingle.daemon.settings.paths import find_paths
from ingle.tui.history.history_store import open_history

if TYPE_CHECKING:
    from ..conftest import FakeDaemon
    from .conftest import Connect, EditorClient

EDIT = (
    "edit_file",
    json.dumps({"path": "notes.txt", "old_text": "old", "new_text": "new"}),
)
READ = ("read_file", json.dumps({"path": "notes.txt"}))


async def new_session(client: EditorClient, folder: Path) -> str:
    opened = await client.agent.new_session(cwd=str(folder), mcp_servers=[])
    return opened.session_id


async def test_an_answer_comes_in_pieces_with_its_thoughts(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script("Hello ", "there.", thoughts=["Hm. "])
    async with connect() as client:
        session = await new_session(client, folder)
        ended = await client.prompt(session, "Hi")
    assert ended.stop_reason == "end_turn"
    assert ended.usage is not None
    assert ended.usage.input_tokens == 20
    assert [u.content.text for u in client.of("agent_message_chunk")] == ["Hello ", "there."]
    assert [u.content.text for u in client.of("agent_thought_chunk")] == ["Hm. "]
    (title,) = client.of("session_info_update")
    assert title.title == "Hi"
    (usage,) = client.of("usage_update")
    assert usage.size == 8192
    (offered,) = client.of("available_commands_update")
    assert {"compact", "model", "undo"} <= {one.name for one in offered.available_commands}


async def test_an_edit_is_asked_about_with_its_diff(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script("I look.", calls=[READ, EDIT])
    fake_daemon.script("Done.")
    async with connect() as client:
        client.choices = ["once"]
        session = await new_session(client, folder)
        await client.prompt(session, "Mend it")
    assert (folder / "notes.txt").read_text() == "one\nnew\nthree\n"
    assert client.said == "I look.Done."
    place = str(folder / "notes.txt")
    begun = [(u.title, u.kind, u.locations[0].path) for u in client.of("tool_call")]
    assert begun == [("Read notes.txt", "read", place), ("Edit notes.txt", "edit", place)]
    ended = client.of("tool_call_update")
    assert [u.status for u in ended] == ["completed", "completed"]
    (call, options), *_ = client.asked
    assert call.tool_call_id == client.of("tool_call")[1].tool_call_id
    assert [option.kind for option in options] == [
        *("allow_once", "allow_always", "reject_once", "reject_always")
    ]
    for content in (call.content[0], ended[1].content[0]):
        assert (content.path, content.old_text) == (place, "one\nold\nthree")
        assert content.new_text == "one\nnew\nthree"


@pytest.mark.parametrize(
    ("choice", "asked_again"),
    [
        ("never", False),
        *(pytest.param(choice, True, marks=pytest.mark.slow) for choice in ("no", None)),
    ],
)
async def test_a_rejected_edit_is_not_made(
    fake_daemon: FakeDaemon,
    connect: Connect,
    folder: Path,
    choice: str | None,
    asked_again: bool,
) -> None:
    for _ in range(2):
        fake_daemon.script(calls=[EDIT])
        fake_daemon.script("I may not.")
    async with connect() as client:
        client.choices = [choice, choice]
        session = await new_session(client, folder)
        await client.prompt(session, "Mend it")
        await client.prompt(session, "Really")
    assert (folder / "notes.txt").read_text() == "one\nold\nthree\n"
    assert len(client.asked) == 1 + asked_again
    assert [u.status for u in client.of("tool_call_update")] == ["failed", "failed"]


@pytest.mark.slow
async def test_always_holds_for_the_chat_and_after_it_is_loaded(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("Done.")
    async with connect() as client:
        client.choices = ["always"]
        session = await new_session(client, folder)
        await client.prompt(session, "Mend it")
    (folder / "notes.txt").write_text("old\n")
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("Again.")
    async with connect() as client:
        await client.agent.load_session(cwd=str(folder), session_id=session, mcp_servers=[])
        await client.prompt(session, "Once more")
    assert client.asked == []
    assert (folder / "notes.txt").read_text() == "new\n"


@pytest.mark.slow
async def test_modes_decide_what_is_asked(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    async with connect() as client:
        session = await new_session(client, folder)
        await client.agent.set_session_mode(session_id=session, mode_id="edit")
        fake_daemon.script(calls=[EDIT])
        fake_daemon.script("Done.")
        await client.prompt(session, "Mend it")
        assert (folder / "notes.txt").read_text() == "one\nnew\nthree\n"
        await client.agent.set_session_mode(session_id=session, mode_id="read")
        (folder / "notes.txt").write_text("old\n")
        fake_daemon.script(calls=[EDIT])
        fake_daemon.script("I cannot.")
        await client.prompt(session, "Mend it")
        assert client.asked == []
        assert (folder / "notes.txt").read_text() == "old\n"
        with pytest.raises(RequestError, match="no mode"):
            await client.agent.set_session_mode(session_id=session, mode_id="yolo")
    offers = [
        [tool["function"]["name"] for tool in request.body["tools"]]
        for request in fake_daemon.requests
        if request.target == "/ingle/v1/generations"
    ]
    assert "edit_file" in offers[0]
    assert offers[-1] == ["read_file", "list_files", "search_files"]


async def test_cancel_stops_the_generation(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script("Some ", "never sent", gate_before=1)
    fake_daemon.script("Fine.")
    async with connect() as client:
        session = await new_session(client, folder)
        running = asyncio.create_task(client.prompt(session, "Tell"))
        await client.until(lambda: client.said == "Some ")
        with pytest.raises(RequestError, match="still answering"):
            await client.prompt(session, "More")
        await client.agent.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        assert len(fake_daemon.cancelled) == 1
        assert (await client.prompt(session, "Next")).stop_reason == "end_turn"
    assert client.said == "Some Fine."


@pytest.mark.slow
async def test_cancel_ends_a_question(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script(calls=[EDIT])
    async with connect() as client:
        client.choices = ["wait"]
        session = await new_session(client, folder)
        running = asyncio.create_task(client.prompt(session, "Mend it"))
        await client.until(lambda: bool(client.asked))
        await client.agent.cancel(session_id=session)
        assert (await running).stop_reason == "cancelled"
        assert client.of("tool_call_update")[-1].status == "failed"
    assert (folder / "notes.txt").read_text() == "one\nold\nthree\n"


@pytest.mark.slow
async def test_a_client_that_leaves_ends_the_answer(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script("Some ", "never sent", gate_before=1)
    async with connect() as client:
        session = await new_session(client, folder)
        running = asyncio.create_task(client.prompt(session, "Tell"))
        await client.until(lambda: client.said == "Some ")
        running.cancel()
    assert len(fake_daemon.cancelled) == 1


@pytest.mark.slow
async def test_errors_of_the_daemon_are_typed(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    error = {"code": "load_failed", "message": "No memory.", "hint": "Unload one."}
    fake_daemon.script("?", error=error)
    async with connect() as client:
        session = await new_session(client, folder)
        with pytest.raises(RequestError, match=r"No memory\. Unload one\.") as raised:
            await client.prompt(session, "Hi")
        assert raised.value.code == -32603
        assert raised.value.data == {"code": "load_failed", "hint": "Unload one."}
        with pytest.raises(RequestError, match="is not open"):
            await client.prompt("another", "Hi")
        with pytest.raises(RequestError, match="no chat"):
            await client.agent.load_session(cwd=str(folder), session_id="another", mcp_servers=[])
        with pytest.raises(RequestError, match="is not a folder"):
            await new_session(client, folder / "missing")


@pytest.mark.slow
async def test_files_of_a_prompt(fake_daemon: FakeDaemon, connect: Connect, folder: Path) -> None:
    place = (folder / "notes.txt").as_uri()
    embedded = embedded_text_resource("file:///elsewhere/a.py", "x = 1\n")
    async with connect(reads=True) as client:
        client.buffers[str(folder / "notes.txt")] = "not saved yet\n"
        session = await new_session(client, folder)
        await client.prompt(
            session,
            *("Compare ", resource_block(embedded), " with "),
            resource_link_block("notes.txt", place),
        )
        sent = fake_daemon.prompts[-1][-1]["content"]
        assert "x = 1" in sent
        assert "not saved yet" in sent
        assert sent.endswith("Compare /elsewhere/a.py with notes.txt")
        picture = image_block("AAAA", "image/png", uri=(folder / "cat.png").as_uri())
        with pytest.raises(RequestError, match=r"cat\.png \(image/png\) was not sent"):
            await client.prompt(session, "What is this? ", picture)


@pytest.mark.slow
async def test_unsaved_changes_are_read_and_edited_in_the_editor(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    place = str(folder / "notes.txt")
    fake_daemon.script(calls=[READ, EDIT])
    fake_daemon.script("Done.")
    async with connect(reads=True, writes=True) as client:
        client.choices = ["once"]
        client.buffers[place] = "old, not saved\n"
        session = await new_session(client, folder)
        await client.prompt(session, "Mend it")
    assert fake_daemon.prompts[-1][-2]["content"] == "old, not saved"
    assert client.written == {place: "new, not saved\n"}


@pytest.mark.slow
async def test_commands_run_in_the_session(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path
) -> None:
    fake_daemon.script(calls=[EDIT])
    fake_daemon.script("Done.")
    async with connect() as client:
        client.choices = ["once"]
        session = await new_session(client, folder)
        await client.prompt(session, "Mend it")
        await client.prompt(session, "/undo")
        assert (folder / "notes.txt").read_text() == "one\nold\nthree\n"
        assert client.said == "Done.undone: notes.txt\n\n"
        with pytest.raises(RequestError, match="no command /open"):
            await client.prompt(session, "/open")


@pytest.mark.slow
async def test_the_chat_is_kept_like_others(
    fake_daemon: FakeDaemon, connect: Connect, folder: Path, tmp_path: Path
) -> None:
    fake_daemon.script("Hello.")
    async with connect() as client:
        session = await new_session(client, folder)
        await client.prompt(session, "Greet me")
    paths = find_paths({"INGLE_HOME": str(tmp_path / "home")})
    store = open_history(paths.chats, lambda text: None)
    chat = store.load(session)
    store.close()
    assert chat is not None
    assert [message.content for message in chat.path] == ["Greet me", "Hello."]
    assert chat.settings.tools == str(folder)
