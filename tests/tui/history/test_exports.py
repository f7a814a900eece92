"""Export of a chat as Markdown, HTML and JSON."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
import yaml

from ingle.tui.chats.chat import Chat, ChatSettings
from ingle.tui.chats.message import (
    Attachment,
    CompactionRecord,
    Message,
    MessageFacts,
    RequestedCall,
    ToolStep,
)
from ingle.tui.history.chat_export import (
    export_html,
    export_markdown,
    file_name,
    parse_export,
    write_export,
)
from ingle.tui.history.database.history_errors import HistoryError
from ingle.tui.history.ingle_json import export_json, read_ingle_chat


@pytest.fixture
def chat() -> Chat:
    chat = Chat(ChatSettings(title='Tides: "why"?', system="Be <short>.", folder="sea"))
    files = (Attachment("a<b>.md", "text\n````\nfence\n````"),)
    prompt = chat.add(Message(role="user", content="Why **tides**?", attachments=files))
    for text in ("The moon.", "<script>alert(1)</script> ![x](https://evil.example/p.png)"):
        chat.add(
            Message(
                role="assistant",
                content=text,
                parent=prompt.id,
                model="tiny",
                reasoning="Hm <b>\x1b[31m",
                ending="stopped",
            )
        )
    first = chat.children(prompt.id)[0]
    chat.add(Message(role="user", content="on the other branch", parent=first.id))
    chat.choose(chat.children(prompt.id)[1])
    chat.add_compaction(CompactionRecord(at=prompt.id, summary="tides"))
    return chat


def test_markdown_has_front_matter_roles_and_folded_reasoning(chat: Chat) -> None:
    text = export_markdown(chat)
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["title"] == 'Tides: "why"?'
    assert front["models"] == ["tiny"]
    assert (front["folder"], front["messages"]) == ("sea", 2)
    assert "## System\n\nBe <short>." in text
    assert "## You" in text
    assert "## tiny" in text
    assert "2 of 2; the JSON export has all · stopped" in text
    assert "<details>\n<summary>Reasoning</summary>\n\nHm &lt;b&gt;\n" in text
    assert "`````\ntext\n````\nfence\n````\n`````" in text
    assert "\x1b" not in text
    assert "on the other branch" not in text


class Page(HTMLParser):
    """The tags, addresses and text of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_escaped_and_loads_nothing(chat: Chat) -> None:
    page = Page(export_html(chat))
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "<script>alert(1)</script>" in page.text
    assert page.tags.count("article") == 2
    assert "strong" in page.tags
    assert page.addresses == ["https://evil.example/p.png"]  # a link, which is not fetched
    assert "\x1b" not in page.text


def test_pictures_are_part_of_html_and_json() -> None:
    chat = Chat(ChatSettings())
    pictures = ("data:image/png;base64,AAAA", "https://evil.example/p.png")
    files = tuple(Attachment("cat.png", "", picture) for picture in pictures)
    chat.add(Message(role="user", content="See.", attachments=files))
    assert Page(export_html(chat)).addresses == [pictures[0]]
    assert "**cat.png** (a picture)" in export_markdown(chat)
    read = read_ingle_chat(msgspec.json.decode(export_json(chat)))
    assert read.path[0].attachments == files


def test_json_round_trips_byte_for_byte(chat: Chat) -> None:
    text = export_json(chat)
    assert export_json(read_ingle_chat(msgspec.json.decode(text))) == text


@pytest.mark.parametrize(
    ("argument", "parsed"),
    [
        ("", ("md", "")),
        ("json", ("json", "")),
        ("html out/page.html", ("html", "out/page.html")),
        ("notes.json", ("json", "notes.json")),
        ("my notes", ("md", "my notes")),
    ],
)
def test_export_arguments_are_parsed(argument: str, parsed: tuple[str, str]) -> None:
    assert parse_export(argument) == parsed


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Tides: why?", "Tides-why"),
        ("../../etc/passwd", "etc-passwd"),
        ("京都の車椅子", "京都の車椅子"),
        ("", "chat"),
        ("...", "chat"),
        ("CON", "CON_"),
    ],
)
def test_export_file_names(title: str, name: str) -> None:
    assert file_name(title) == name


def test_existing_files_are_not_overwritten(chat: Chat, tmp_path: Path) -> None:
    names = [write_export(chat, "md", "", tmp_path).name for _ in range(3)]
    assert names == ["Tides-why.md", "Tides-why-2.md", "Tides-why-3.md"]
    named = write_export(chat, "html", "page.html", tmp_path)
    assert named == tmp_path / "page.html"
    with pytest.raises(HistoryError, match="exists already"):
        write_export(chat, "html", "page.html", tmp_path)
    with pytest.raises(HistoryError, match="cannot be written"):
        write_export(chat, "md", "no/such/folder.md", tmp_path)


def test_partial_file_is_removed_on_error(
    chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDisk(io.BytesIO):
        def write(self, content: object, /) -> int:
            raise OSError(28, "No space left on device")

    def open_full(path: Path, mode: str) -> FullDisk:
        path.touch()
        return FullDisk()

    monkeypatch.setattr(Path, "open", open_full)
    with pytest.raises(HistoryError, match="No space left"):
        write_export(chat, "md", "notes.md", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_steps_of_tools_are_exported() -> None:
    chat = Chat(ChatSettings(tools="/project", consents={"run": "always"}))
    call = RequestedCall("c", "edit_file", '{"path": "a"}')
    prompt = chat.add(Message(role="user", content="mend it"))
    facts = MessageFacts(calls=(call,))
    answer = chat.add(
        Message(role="assistant", parent=prompt.id, model="tiny", ending="answered", facts=facts)
    )
    step = ToolStep(call, summary="edited a", diff="-<old>\n+new")
    chat.add(
        Message(
            role="tool",
            content="a was changed",
            parent=answer.id,
            ending="answered",
            facts=MessageFacts(step=step),
        )
    )
    text = export_markdown(chat)
    assert "## Tool edit_file\n\n*" in text
    assert "· edited a*" in text
    assert '```\n{"path": "a"}\n\n-<old>\n+new\n\na was changed\n```' in text
    assert "## tiny" not in text
    assert "-&lt;old&gt;" in export_html(chat)
    imported = read_ingle_chat(msgspec.json.decode(export_json(chat)))
    assert [m.facts for m in imported.path] == [m.facts for m in chat.path]
    assert (imported.settings.tools, imported.settings.consents) == ("", {})
