"""Passages of mentioned folders in prompts, and what may leave of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingle.daemon.client.document_types import FoundPassage, FoundPassages
from ingle.tui.chats.command_refused import CommandRefused
from ingle.tui.chats.message import Attachment, Message
from ingle.tui.composing.folder_passages import add_passages, as_attachments, search_folder
from ingle.tui.session.chat_client import chat_client

if TYPE_CHECKING:
    from ..conftest import FakeDaemon

CARD = "4539 5787 6362 1486"


def passage(text: str, **more: Any) -> dict[str, Any]:
    return {"file": "a.md", "first": 3, "last": 5, "text": text, **more}


def asked(fake_daemon: FakeDaemon) -> list[dict[str, Any]]:
    path = "/ingle/v1/documents/search"
    return [request.body for request in fake_daemon.requests if request.target == path]


async def test_mentioned_folder_gets_passages_behind_its_listing(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    client = chat_client(str(fake_daemon.path))
    fake_daemon.documents = {"passages": [passage("Masts.")], "files": 1}
    listing = Attachment("sea/", "a.md  9 B")
    given = (listing, Attachment("x.txt", "x"))
    found, problems = await add_passages(client, "Which masts has @sea/?", given, tmp_path)
    assert [each.name for each in found] == ["sea/", "x.txt", "sea/a.md:3-5"]
    assert (problems, asked(fake_daemon)[0]["question"]) == ([], "Which masts has ?")
    # Too few words to look for.
    assert (await add_passages(client, "@sea/ look", given, tmp_path))[0] == given


async def test_daemon_elsewhere_reads_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CommandRefused, match="another machine"):
        await search_folder(chat_client(address=("10.1.2.3", 4645)), tmp_path, "a b c", 1.0)


async def test_policy_judges_passages_like_the_prompt(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    fake_daemon.route_for_real("acme")
    client = chat_client(str(fake_daemon.path))
    for text, goes_to in ((f"The card is {CARD}.", "local"), ("Masts are of wood.", "acme/big")):
        found = FoundPassages(
            passages=[FoundPassage(file="a.md", first=1, last=1, text=text)], files=1
        )
        message = Message(
            role="user",
            content="What are masts made of?",
            attachments=tuple(as_attachments(found, tmp_path, tmp_path)),
        )
        body = {"model": "auto", "messages": [{"role": "user", "content": message.text}]}
        explanation = await client.explain_routing(body)
        assert explanation.goes_to == goes_to
