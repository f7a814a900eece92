"""Reads the files mentioned in a prompt, within limits that are reported."""

from __future__ import annotations

import codecs
import os
import re
import stat
from base64 import b64encode
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ..chats.message import Attachment
from ..text import number_format
from .file_index import index_files
from .file_mentions import AttachmentPreview, Mention, exists, find_mentions, resolve, shown_path

MAX_FILE = 1_000_000
"""Bytes of one file."""
MAX_PICTURE = 8_000_000
"""Bytes of a picture."""
MAX_PICTURES = 9_000_000
"""Bytes of all pictures of one prompt."""
MAX_TOTAL = 4_000_000
"""Bytes of all files of one prompt."""
MAX_FILES = 100
MAX_LISTED = 500
MAX_ENTRIES = 50_000
"""Entries of a folder that are examined for its listing."""
_SNIFFED = 8_192
_PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
}
_GLOB_TOKENS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class UnreadableFile(Exception):
    """A file that cannot be attached; the message says which and why."""


@dataclass(slots=True)
class AttachmentReading:
    """The attachments of a prompt's mentions, and a sentence for each that failed."""

    attachments: list[Attachment] = field(default_factory=list[Attachment])
    problems: list[str] = field(default_factory=list[str])


def read_mentions(text: str, folder: Path, promised: Collection[str] = ()) -> AttachmentReading:
    """Read the files that a prompt mentions; blocks, so run it in a thread.

    `@words` that are not files are text, and only a problem if they are among `promised`.
    """
    reading = AttachmentReading()
    total = pictures = 0
    seen: set[Path] = set()
    for mention in {found.path: found for found in find_mentions(text)}.values():
        if not _means_files(mention, folder, promised):
            continue
        try:
            for path in paths_of(mention, folder):
                if path in seen:
                    continue
                seen.add(path)
                if len(seen) > MAX_FILES:
                    raise UnreadableFile(f"A prompt can have at most {MAX_FILES} files.")
                attachment = read_file(path, shown_path(path, folder))
                total += len(attachment.text)
                pictures += len(attachment.picture) * 3 // 4
                if pictures > MAX_PICTURES:
                    limit = number_format.size(MAX_PICTURES)
                    raise UnreadableFile(
                        f"{mention.path} exceeds the limit of {limit} for all pictures."
                    )
                if total > MAX_TOTAL:
                    limit = number_format.size(MAX_TOTAL)
                    raise UnreadableFile(
                        f"{mention.path} exceeds the limit of {limit} for all files."
                    )
                reading.attachments.append(attachment)
        except UnreadableFile as error:
            reading.problems.append(str(error))
    return reading


def _means_files(mention: Mention, folder: Path, promised: Collection[str]) -> bool:
    if mention.path in promised:
        return True
    if mention.is_glob and not exists(resolve(mention.path, folder)):
        return bool(_matches(mention.path, folder))
    return exists(resolve(mention.path, folder))


def preview_mention(mention: Mention, folder: Path) -> AttachmentPreview | None:
    """Return a preview of a mention, None for `@words` that are not files; reads the disk."""
    if not _means_files(mention, folder, ()):
        return None
    try:
        paths = paths_of(mention, folder)
        size = sum(path.stat().st_size for path in paths if path.is_file())
    except UnreadableFile as error:
        return AttachmentPreview(mention.path, problem=str(error))
    except OSError as error:
        return AttachmentPreview(mention.path, problem=f"{mention.path}: {error.strerror}.")
    too_large = len(paths) == 1 and size > _limit(paths[0])
    problem = _too_large(mention.path, size, _limit(paths[0])) if too_large else ""
    is_picture = len(paths) == 1 and paths[0].suffix.lower() in _PICTURES
    return AttachmentPreview(mention.path, size, len(paths), problem, is_picture)


def paths_of(mention: Mention, folder: Path) -> list[Path]:
    """Return the mentioned file or folder, or the files of a pattern, in order."""
    path = resolve(mention.path, folder)
    if not mention.is_glob or exists(path):
        return [path]
    found = _matches(mention.path, folder)
    if not found:
        raise UnreadableFile(f"No file matches {mention.path}.")
    if len(found) > MAX_FILES:
        raise UnreadableFile(f"{mention.path} matches more than {MAX_FILES} files.")
    return found


def _matches(pattern: str, folder: Path) -> list[Path]:
    """Return the files of a pattern, in order, without hidden and git-ignored files."""
    parts = pattern.split("/")
    plain = next(index for index, part in enumerate(parts) if Mention(part, 0, 0).is_glob)
    base = resolve("/".join(parts[:plain]) + "/" * (plain > 0), folder)
    regex = _glob_regex("/".join(parts[plain:]))
    names = index_files(base)
    return [base / name for name in names if not name.endswith("/") and regex.fullmatch(name)]


def _glob_regex(pattern: str) -> re.Pattern[str]:
    """Translate a glob: `**` matches any folders, `*` and `?` no slash, `[…]` one of a set."""
    parts: list[str] = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern):
        if token in _GLOB_TOKENS:
            parts.append(_GLOB_TOKENS[token])
        elif len(token) > 1:
            inside = re.escape(token[1:-1]).replace(r"\-", "-")
            parts.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            parts.append(re.escape(token))
    return re.compile("".join(parts))


def read_file(path: Path, name: str) -> Attachment:
    """Return a text file, a picture, or the listing of a folder; raises `UnreadableFile`."""
    try:
        if path.is_dir():
            return Attachment(name.rstrip("/") + "/", _listing(path))
        if path.suffix.lower() in (".heic", ".heif"):
            raise UnreadableFile(
                f"{name} is a HEIC picture. Convert it to JPEG first: by `heif-convert`, or on a "
                "Mac by `sips -s format jpeg`."
            )
        content = _read_bytes(path, name, _limit(path))
    except FileNotFoundError:
        raise UnreadableFile(f"{name} no longer exists.") from None
    except PermissionError:
        raise UnreadableFile(f"{name} cannot be read: permission denied.") from None
    except OSError as error:
        raise UnreadableFile(f"{name} could not be read: {error.strerror}.") from None
    kind = _PICTURES.get(path.suffix.lower())
    if kind is not None:
        # The daemon looks into it, in a process of its own.
        return Attachment(name, "", f"data:{kind};base64,{b64encode(content).decode()}")
    return Attachment(name, decode(content, name))


def _limit(path: Path) -> int:
    return MAX_PICTURE if path.suffix.lower() in _PICTURES else MAX_FILE


def _read_bytes(path: Path, name: str, limit: int) -> bytes:
    # Reading a pipe or a device would block: open it non-blocking, then check.
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise UnreadableFile(f"{name} is not a file.")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise UnreadableFile(_too_large(name, max(facts.st_size, len(content)), limit))
    return content


def _too_large(name: str, size: int, limit: int) -> str:
    return f"{name} has {number_format.size(size)}; the limit is {number_format.size(limit)}."


def decode(content: bytes, name: str) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark; raises `UnreadableFile`."""
    encoding = "utf-8-sig"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in content[:_SNIFFED]:
        raise UnreadableFile(f"{name} is binary; only text files can be attached.")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise UnreadableFile(f"{name} is not UTF-8 text; iconv can convert it.") from None
    return text.replace("\r\n", "\n")


def _listing(folder: Path) -> str:
    """Return the names in a folder, folders first, with the sizes of the files."""
    with os.scandir(folder) as entries:
        found = list(islice(entries, MAX_ENTRIES))
    found.sort(key=lambda entry: (not entry.is_dir(), entry.name.lower()))
    lines = [
        f"{entry.name}/" if entry.is_dir() else f"{entry.name}  {_size(entry)}"
        for entry in found[:MAX_LISTED]
    ]
    if len(found) > MAX_LISTED:
        lines.append(f"… and {len(found) - MAX_LISTED} more")
    return "\n".join(lines)


def _size(entry: os.DirEntry[str]) -> str:
    try:
        return number_format.size(entry.stat().st_size)
    except OSError:
        return "?"
