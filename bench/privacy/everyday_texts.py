"""Everyday sentences, messages of programs, questions and articles in many languages.

    PYTHONPATH=bench:bench/privacy python bench/privacy/everyday_texts.py FOLDER

Writes `FOLDER/everyday.jsonl`, a text a line: `text`, `language` and `source`. Sentences are
Tatoeba's (CC BY 2.0 FR), those of which the English translation names a private matter left out;
captions and news KorSTS's (CC BY-SA 4.0), articles and questions XQuAD's (CC BY-SA 4.0), and
messages those of programs of Debian. Needs `git`, `apt-get` and `dpkg-deb`; what is fetched stays
in `FOLDER/packages` and is committed nowhere.
"""

from __future__ import annotations

import csv
import gettext
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import public_texts
from public_texts import SEED, Source

MOST = 3000
"""Texts of a language and source at most."""

TATOEBA = {
    "ar": "ara",
    "de": "deu",
    "es": "spa",
    "fr": "fra",
    "hi": "hin",
    "it": "ita",
    "ja": "jpn",
    "ko": "kor",
    "nl": "nld",
    "pl": "pol",
    "pt": "por",
    "ru": "rus",
    "sv": "swe",
    "tr": "tur",
    "zh": "cmn",
}
"""Languages, and their names in Tatoeba."""

XQUAD = ("ar", "de", "es", "hi", "ru", "tr", "zh")
PROGRAMS = (
    *("gnome-control-center-data", "evolution-common", "nautilus-data", "gnome-calendar"),
    *("gnome-contacts", "gedit-common", "epiphany-browser-data", "gnome-initial-setup"),
    *("gimp-data", "wesnoth-1.16-data", "gnome-maps", "gnome-weather", "gnome-music"),
    *("gnome-clocks", "rhythmbox-data", "shotwell-common", "totem-common", "deja-dup"),
    "gnucash-common",
)
"""Of Debian."""

_REPOSITORIES = {
    "LASER": ("https://github.com/facebookresearch/LASER", "data/tatoeba/v1"),
    "xquad": ("https://github.com/google-deepmind/xquad", "."),
    "kor-nlu-datasets": ("https://github.com/kakaobrain/kor-nlu-datasets", "KorSTS"),
}
_PRIVATE = re.compile(
    r"(?i)\b(cancer|pregnan|divorc|drunk|suicid|kill|murder|died|dead|death|sick|ill\b|hospital|"
    r"doctor|pain|hurt|fever|headache|diseas|debt|salary|lawyer|prison|jail|police|arrest|fired|"
    r"secret|password|god\b|pray|church|sex|gay|lesbian|marry|married|wedding|love|hate|cry|"
    r"crying|lonely|depress|afraid|scared|kiss|breast|medicine|surgery|steal|stole|crime)"
)
_PLACEHOLDER = re.compile(r"[%{<]|\$\w")
_SPACELESS = ("ja", "ko", "zh")


def tatoeba(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Sentences, their language, and their English translation."""
    source = folder / "LASER" / "data" / "tatoeba" / "v1"
    for language, code in TATOEBA.items():
        here, english = (
            (source / f"tatoeba.{code}-eng.{side}").read_text().split("\n")
            for side in (code, "eng")
        )
        for text, translation in zip(here, english, strict=True):
            if text:
                yield text, language, translation


def sentences(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Tatoeba's, also the English ones."""
    for text, language, translation in tatoeba(folder):
        if not _PRIVATE.search(translation):
            yield text, language, "tatoeba"
            yield translation, "en", "tatoeba"


def captions(folder: Path) -> Iterator[tuple[str, str, str]]:
    """The first sentences of the pairs of KorSTS."""
    with (folder / "kor-nlu-datasets" / "KorSTS" / "sts-train.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield row["sentence1"], "ko", "korsts"


def articles(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Paragraphs and questions of XQuAD."""
    for language in XQUAD:
        file = folder / "xquad" / f"xquad.{language}.json"
        for article in json.loads(file.read_text())["data"]:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"], language, "xquad"
                for question in paragraph["qas"]:
                    yield question["question"], language, "xquad"


def messages(root: Path, language: str) -> set[str]:
    """Sentences of the translations below a folder, without those that have placeholders."""
    least = 20 if language not in _SPACELESS else 10
    names = {language, "zh_CN" if language == "zh" else language, f"{language}_KR"}
    found: set[str] = set()
    for path in root.rglob("LC_MESSAGES/*.mo"):
        if path.parts[-3] not in names:
            continue
        try:
            with path.open("rb") as file:
                catalogue: dict[object, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        except (UnicodeDecodeError, OSError):  # some do not name their encoding
            continue
        found.update(
            text
            for key, text in catalogue.items()
            if key and least <= len(text) <= 1500 and text != key and not _PLACEHOLDER.search(text)
        )
    return found


def _programs(folder: Path) -> Iterator[tuple[str, str, str]]:
    for package in PROGRAMS:
        root = public_texts.fetch(Source(package, "messages"), folder, "apt")
        for language in TATOEBA if root else ():
            for text in messages(root, language) if root else ():
                yield text, language, package


def clone(address: str, path: str, target: Path) -> None:
    """Fetch a file or folder of a repository, if it is not there."""
    if not target.exists():
        cloning = ["git", "clone", "-q", "--depth=1", "--filter=blob:none", "--no-checkout"]
        subprocess.run([*cloning, address, target], check=True)
        subprocess.run(["git", "-C", target, "checkout", "-q", "HEAD", "--", path], check=True)


def collect(folder: Path) -> None:
    """Write the file."""
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for name, (address, path) in _REPOSITORIES.items():
        clone(address, path, packages / name)
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for read in (sentences, captions, articles, _programs):
        for text, language, source in read(packages):
            sort = source if source in ("tatoeba", "korsts", "xquad") else "messages"
            groups.setdefault((language, sort), {})[text] = source
    draw = random.Random(SEED)
    with (folder / "everyday.jsonl").open("w") as out:
        for (language, sort), texts in groups.items():
            chosen = draw.sample(sorted(texts), min(MOST, len(texts)))
            print(f"{language} {sort}: {len(chosen)} of {len(texts)}", file=sys.stderr)
            for text in chosen:
                row = {"text": text, "language": language, "source": texts[text]}
                out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    collect(Path(sys.argv[1]).resolve())
