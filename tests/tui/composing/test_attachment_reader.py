"""Reading mentioned files, patterns and folders as attachments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ingle.tui.composing.attachment_reader import (
    MAX_FILE,
    MAX_FILES,
    MAX_PICTURE,
    UnreadableFile,
    preview_mention,
    read_file,
    read_mentions,
)
from ingle.tui.composing.file_mentions import Mention


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def names(text: str, folder: Path) -> list[str]:
    return [attachment.name for attachment in read_mentions(text, folder).attachments]


def test_mentioned_files_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "one\n", "b c.txt": "two"})
    reading = read_mentions('@a.py and @"b c.txt" and @./a.py @a.py', tmp_path)
    assert [(a.name, a.text) for a in reading.attachments] == [
        ("a.py", "one\n"),
        ("b c.txt", "two"),
    ]
    assert reading.problems == []


def test_mentions_of_missing_files_are_plain_text(tmp_path: Path) -> None:
    assert read_mentions("@dataclass and @types/node", tmp_path).problems == []


def test_vanished_promised_file_is_reported(tmp_path: Path) -> None:
    reading = read_mentions("see @gone.py", tmp_path, promised={"gone.py"})
    assert reading.problems == ["gone.py no longer exists."]


def test_glob_pattern_skips_gitignored_files(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    files = {"src/a.py": "", "src/deep/b.py": "", "src/deep/c.txt": "", "src/gen/d.py": ""}
    write(tmp_path, files | {".gitignore": "gen/\n"})
    assert names("@src/**/*.py", tmp_path) == ["src/a.py", "src/deep/b.py"]
    assert names("@src/*.py", tmp_path) == ["src/a.py"]
    assert names("@src/deep/[bc].*", tmp_path) == ["src/deep/b.py", "src/deep/c.txt"]
    assert names(f"@{tmp_path}/s*/?.py", tmp_path) == ["src/a.py"]


def test_too_many_matching_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, {f"{number}.txt": "" for number in range(MAX_FILES + 1)})
    assert read_mentions("@*.txt", tmp_path).problems == ["*.txt matches more than 100 files."]


def test_file_name_with_glob_characters_is_read(tmp_path: Path) -> None:
    write(tmp_path, {"[id].tsx": "page"})
    assert names('@"[id].tsx"', tmp_path) == ["[id].tsx"]


def test_photo_of_a_phone_names_what_converts_it(tmp_path: Path) -> None:
    write(tmp_path, {"a.HEIC": "x"})
    with pytest.raises(UnreadableFile, match="heif-convert"):
        read_file(tmp_path / "a.HEIC", "a.HEIC")


def test_folder_is_attached_as_a_listing(tmp_path: Path) -> None:
    write(tmp_path, {"src/a.py": "12345", "src/sub/b.py": ""})
    (attachment,) = read_mentions("@src", tmp_path).attachments
    assert attachment.name == "src/"
    assert attachment.text == "sub/\na.py  5 B"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x7fELF\0\0", "it is binary; only text files can be attached."),
        (b"\xff\xfa", "it is not UTF-8 text; iconv can convert it."),
        (b"x" * (MAX_FILE + 1), "it has 1.0 MB; the limit is 1.0 MB."),
    ],
)
def test_unreadable_content_is_reported(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "it").write_bytes(content)
    with pytest.raises(UnreadableFile, match=f"^{problem}$"):
        read_file(tmp_path / "it", "it")


def test_byte_order_marks_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("\ufeffgrüße\r\n".encode())
    (tmp_path / "b").write_bytes("grüße".encode("utf-16"))
    assert read_file(tmp_path / "a", "a").text == "grüße\n"
    assert read_file(tmp_path / "b", "b").text == "grüße"


def test_named_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableFile, match="pipe is not a file"):
        read_file(tmp_path / "pipe", "pipe")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_missing_read_permission_is_reported(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0)
    with pytest.raises(UnreadableFile, match="secret may not be read"):
        read_file(tmp_path / "secret", "secret")


def test_preview_shows_sizes_without_reading(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "12345", "b.py": "123"})
    one = preview_mention(Mention("a.py", 0, 0), tmp_path)
    both = preview_mention(Mention("*.py", 0, 0), tmp_path)
    assert one is not None
    assert (one.files, one.size, one.problem) == (1, 5, "")
    assert both is not None
    assert (both.files, both.size) == (2, 8)
    assert preview_mention(Mention("dataclass", 0, 0), tmp_path) is None


def test_picture_is_attached_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "cat.PNG").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (attachment,) = read_mentions("what is in @cat.PNG", tmp_path).attachments
    assert attachment.picture == "data:image/png;base64,iVBORw0KGgoAAA=="
    assert (attachment.text, attachment.sent_text) == ("", '<picture name="cat.PNG"/>')


def test_pictures_have_a_limit_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(bytes(MAX_FILE + 1))
    (tmp_path / "b.png").write_bytes(bytes(MAX_PICTURE + 1))
    assert names("@a.png", tmp_path) == ["a.png"]
    assert "8" in read_mentions("@b.png", tmp_path).problems[0]
    preview = preview_mention(Mention("b.png", 0, 0), tmp_path)
    assert preview is not None
    assert "limit" in preview.problem
    (tmp_path / "c.png").write_bytes(bytes(MAX_PICTURE))
    assert "all pictures" in read_mentions("@a.png @c.png", tmp_path).problems[0]
