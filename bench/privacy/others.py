"""Blind: texts by other authors, of sources that nothing was learnt from.

    export PYTHONPATH=bench:bench/privacy
    python bench/privacy/others.py FOLDER [--most N] [--later] [--save]

Sensitive are questions to therapists (counsel-chat, MIT), those of patients to a library (LiveQA
2017, those in the first person) and to doctors (Chinese-medical-dialogue-data, MIT), and Korean
sentences about a separation (Chatbot_data, MIT). Harmless are requests that fit no intent (CLINC,
CC BY 3.0), instructions (self-instruct, Apache-2.0; some name people), Arabic articles (ARCD, MIT),
Hindi headlines (BBC), the constitution of Korea (konlpy), and messages of KDE's programs. By these
sets candidates were chosen since, so they are not blind any more; those in `LATER` were measured
once, when the network was done: posts of people in distress (Dreaddit), situations told to
supporters (ESConv, CC BY-NC 4.0), prompts of AlpacaEval (Koala and Open Assistant), WizardLM and
AlignBench, requests in eight languages (xSID, CC BY-SA 4.0), and messages of VLC. What is fetched
stays in FOLDER. No error of these sets may be read. Beside them stand our own everyday prompts,
`corpora/everyday.*` and `corpora/later.*`, which were written before their first run.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
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

LATER_PROGRAMS = ("vlc-l10n",)
REQUESTS = ("ar", "de", "en", "it", "ja", "nl", "tr", "zh")
"""Languages of xSID that are judged."""

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
    "Stress_Analysis_in_Social_Media": "ShirCohen1",
    "Emotional-Support-Conversation": "thu-coai",
    "alpaca_eval": "tatsu-lab",
    "WizardLM": "nlpxucan",
    "AlignBench": "THUDM",
    "xsid": "mainlp",
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


def _posts(folder: Path) -> Iterator[str]:
    for row in _rows(folder / "Stress_Analysis_in_Social_Media" / "dreaddit-test.csv"):
        yield row["text"]


def _situations(folder: Path) -> Iterator[str]:
    path = folder / "Emotional-Support-Conversation" / "FailedESConv.json"
    yield from (row["situation"] for row in json.loads(path.read_text()))


def _chats(folder: Path) -> Iterator[str]:
    for row in json.loads((folder / "alpaca_eval" / "example" / "outputs.json").read_text()):
        if row["dataset"] in ("koala", "oasst"):
            yield row["instruction"]


def _lines(folder: Path, path: str, field: str) -> Iterator[str]:
    for line in (folder / path).read_text().splitlines():
        yield json.loads(line)[field]


def _short_requests(folder: Path, language: str) -> Iterator[str]:
    path = folder / "xsid" / "data" / "xSID-0.7" / f"{language}.test.conll"
    for line in path.read_text().splitlines():
        name, _, text = line.partition(" = ")
        if name in ("# text", "# text:"):
            yield text


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

LATER: dict[str, tuple[bool, Callable[[Path], Iterator[str]]]] = {
    "en, posts": (True, _posts),
    "en, situations": (True, _situations),
    "en, chats": (False, _chats),
    "en, WizardLM": (
        False,
        partial(_lines, path="WizardLM/WizardLM/data/WizardLM_testset.jsonl", field="Instruction"),
    ),
    "zh, AlignBench": (
        False,
        partial(_lines, path="AlignBench/data/data_v1.1_release.jsonl", field="question"),
    ),
    **{
        f"{language}, xSID": (False, partial(_short_requests, language=language))
        for language in REQUESTS
    },
}
"""Those that were measured once."""


def _fetch(folder: Path) -> None:
    for name, owner in _REPOSITORIES.items():
        if not (folder / name).exists():
            address = f"https://github.com/{owner}/{name}"
            subprocess.run(["git", "clone", "-q", "--depth=1", address, folder / name], check=True)
    public_texts.fetch(Source("konlpy", "prose"), folder, "pip")
    for package in (*PROGRAMS, *LATER_PROGRAMS):
        public_texts.fetch(Source(package, "messages"), folder, "apt")


def _programs(folder: Path, language: str, packages: Sequence[str]) -> Iterator[str]:
    for package in packages:
        yield from messages(folder / package, language)


def _own(_: Path, kind: str, name: str, *, english: bool) -> Iterator[str]:
    """Our own prompts, written before their first run."""
    for language, texts in own(kind, name).items():
        if (language == "en") == english:
            yield from texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=300, help="texts of a set at most")
    parser.add_argument("--later", action="store_true", help="the sets that were measured once")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    _fetch(folder)
    sets = dict(LATER if options.later else SETS)
    name, packages = ("later", LATER_PROGRAMS) if options.later else ("everyday", PROGRAMS)
    for language, kind in product(("en", "other"), ("sensitive", "harmless")):
        read = partial(_own, kind=kind, name=name, english=language == "en")
        sets[f"{language}, {kind}"] = kind == "sensitive", read
    for language in TATOEBA:
        read = partial(_programs, language=language, packages=packages)
        sets[f"{language}, messages"] = False, read
    scanner, draw = make_scanner(OwnWords()), random.Random(SEED)
    rates: list[Rate] = []
    for title, (sensitive, read) in sets.items():
        texts = sorted({text for text in read(folder) if 8 <= len(text) <= 4000})
        language, _, rest = title.partition(", ")
        most = min(options.most, MESSAGES) if rest == "messages" else options.most
        chosen = draw.sample(texts, min(most, len(texts)))
        if not chosen:  # a program need not have each language
            continue
        rate = measured(language, rest, sensitive, chosen, scanner)
        rates.append(rate)
        what = "leave" if sensitive else "kept"
        print(
            f"{title:20} {rate.wrong:3} of {rate.prompts:3} {what}  {rate.low:.3f}-{rate.high:.3f}"
        )
    secrets = [text for texts in own("credentials", name).values() for text in texts]
    gone = len(missed(secrets, scanner))
    print(f"credentials missed {gone} of {len(secrets)}")
    if options.save:
        figures: dict[str, object] = {
            "rates": msgspec.to_builtins(rates),
            "credentials": {"texts": len(secrets), "missed": gone},
        }
        print(save(f"privacy-others-{name}", figures), file=sys.stderr)


if __name__ == "__main__":
    main()
