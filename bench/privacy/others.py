"""Blind: texts by other authors, of sources that nothing was learnt from.

    PYTHONPATH=bench:bench/privacy python bench/privacy/others.py FOLDER [--most N] [--save]

Sensitive are questions to therapists (counsel-chat, MIT), those of patients to a library (LiveQA
2017, those in the first person) and to doctors (Chinese-medical-dialogue-data, MIT), and Korean
sentences about a separation (Chatbot_data, MIT). Harmless are requests that fit no intent (CLINC,
CC BY 3.0), instructions (self-instruct, Apache-2.0; some name people), Arabic articles (ARCD, MIT),
Hindi headlines (BBC), the constitution of Korea (konlpy), and messages of KDE's programs. What is
fetched stays in FOLDER. No error of these sets may be read. Beside them stand our own everyday
prompts, `corpora/everyday.*`, which were written before their first run.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import public_texts
from everyday_texts import TATOEBA, messages
from languages import measured, missed, own
from machine import save  # bench/, on the path beside this folder
from public_texts import SEED, Source
from topics import Rate

from ingle.daemon.routing.inspection.text_scanner import OwnWords, make_scanner

PROGRAMS = (
    *("kate5-data", "konsole", "dolphin", "kdenlive-data", "kstars-data", "digikam-data"),
    *("plasma-workspace-data", "ktorrent-data", "kmymoney-common", "korganizer"),
    "gcompris-qt-data",
)
"""Of Debian."""
MESSAGES = 150
"""A language at most."""

_FIRST_PERSON = re.compile(r"(?i)\b(i|i'm|i've|im|my|me|we|our)\b")
_REPOSITORIES = {
    "counsel-chat": "nbertagnolli",
    "LiveQA_MedicalTask_TREC2017": "abachaa",
    "Chatbot_data": "songys",
    "Chinese-medical-dialogue-data": "Toyhom",
    "oos-eval": "clinc",
    "self-instruct": "yizhongw",
    "SOQAL": "husseinmozannar",
    "hindi-nli-data": "midas-research",
}


def _rows(path: Path, encoding: str = "utf-8", separator: str = ",") -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding=encoding) as file:
        yield from csv.DictReader(file, delimiter=separator)


def _therapists(folder: Path) -> Iterator[str]:
    for row in _rows(folder / "counsel-chat" / "data" / "20200325_counsel_chat.csv"):
        yield " ".join(row["questionText"].split())


def _patients(folder: Path) -> Iterator[str]:
    tests = folder / "LiveQA_MedicalTask_TREC2017" / "TestDataset"
    path = tests / "TREC-2017-LiveQA-Medical-Test-Questions-w-summaries.xml"
    for message in ElementTree.parse(path).iter("MESSAGE"):
        text = " ".join((message.text or "").split())
        if _FIRST_PERSON.search(text):
            yield text


def _doctors(folder: Path) -> Iterator[str]:
    (path,) = (folder / "Chinese-medical-dialogue-data").glob("*5000-6000.csv")
    yield from (row["ask"] for row in _rows(path, "gb18030"))


def _korean(folder: Path, label: str) -> Iterator[str]:
    rows = _rows(folder / "Chatbot_data" / "ChatbotData.csv")
    yield from (row["Q"] for row in rows if row["label"] == label)


def _requests(folder: Path) -> Iterator[str]:
    data = json.loads((folder / "oos-eval" / "data" / "data_full.json").read_text())
    yield from (text for text, _ in data["oos_test"])


def _instructions(folder: Path) -> Iterator[str]:
    path = folder / "self-instruct" / "human_eval" / "user_oriented_instructions.jsonl"
    for line in path.read_text().splitlines():
        row = json.loads(line)
        yield f"{row['instruction']}\n\n{row['instances'][0]['input']}".strip()


def _arabic(folder: Path) -> Iterator[str]:
    for article in json.loads((folder / "SOQAL" / "data" / "arcd.json").read_text())["data"]:
        yield from (paragraph["context"] for paragraph in article["paragraphs"])


def _hindi(folder: Path) -> Iterator[str]:
    path = folder / "hindi-nli-data" / "Classification" / "BBC" / "BBC_train_data.tsv"
    yield from (row["Sentence"] for row in _rows(path, separator="\t"))


def _constitution(folder: Path) -> Iterator[str]:
    path = folder / "konlpy" / "konlpy" / "data" / "corpus" / "kolaw" / "constitution.txt"
    yield from path.read_text().splitlines()


SETS: dict[str, tuple[bool, Callable[[Path], Iterator[str]]]] = {
    "en, to therapists": (True, _therapists),
    "en, of patients": (True, _patients),
    "zh, to doctors": (True, _doctors),
    "ko, separations": (True, partial(_korean, label="1")),
    "ko, small talk": (False, partial(_korean, label="0")),
    "en, requests": (False, _requests),
    "en, instructions": (False, _instructions),
    "ar, articles": (False, _arabic),
    "hi, headlines": (False, _hindi),
    "ko, constitution": (False, _constitution),
}
"""Whether they are sensitive, and their texts in a folder."""


def _fetch(folder: Path) -> None:
    for name, owner in _REPOSITORIES.items():
        if not (folder / name).exists():
            address = f"https://github.com/{owner}/{name}"
            subprocess.run(["git", "clone", "-q", "--depth=1", address, folder / name], check=True)
    public_texts.fetch(Source("konlpy", "prose"), folder, "pip")
    for package in PROGRAMS:
        public_texts.fetch(Source(package, "messages"), folder, "apt")


def _programs(folder: Path, language: str) -> Iterator[str]:
    for package in PROGRAMS:
        yield from messages(folder / package, language)


def _everyday(_: Path, kind: str, *, english: bool) -> Iterator[str]:
    """Our own prompts, written before their first run."""
    for language, texts in own(kind, "everyday").items():
        if (language == "en") == english:
            yield from texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=300, help="texts of a set at most")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    _fetch(folder)
    sets = dict(SETS)
    for language, kind in product(("en", "other"), ("sensitive", "harmless")):
        read = partial(_everyday, kind=kind, english=language == "en")
        sets[f"{language}, {kind}"] = kind == "sensitive", read
    for language in TATOEBA:
        sets[f"{language}, messages"] = False, partial(_programs, language=language)
    scanner, draw = make_scanner(OwnWords()), random.Random(SEED)
    rates: list[Rate] = []
    for name, (sensitive, read) in sets.items():
        texts = sorted({text for text in read(folder) if 8 <= len(text) <= 4000})
        language, _, rest = name.partition(", ")
        most = min(options.most, MESSAGES) if rest == "messages" else options.most
        chosen = draw.sample(texts, min(most, len(texts)))
        rate = measured(language, rest, sensitive, chosen, scanner)
        rates.append(rate)
        what = "leave" if sensitive else "kept"
        print(
            f"{name:20} {rate.wrong:3} of {rate.prompts:3} {what}  {rate.low:.3f}-{rate.high:.3f}"
        )
    secrets = [text for texts in own("credentials", "everyday").values() for text in texts]
    gone = len(missed(secrets, scanner))
    print(f"credentials missed {gone} of {len(secrets)}")
    if options.save:
        figures: dict[str, object] = {
            "rates": msgspec.to_builtins(rates),
            "credentials": {"texts": len(secrets), "missed": gone},
        }
        print(save("privacy-others", figures), file=sys.stderr)


if __name__ == "__main__":
    main()
