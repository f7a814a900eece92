"""Texts of other authors that are private or public, from repositories.

    PYTHONPATH=bench:bench/privacy python bench/privacy/labelled_texts.py FOLDER

Writes `FOLDER/labelled.jsonl`, a text a line: `text`, `language`, `source` and `kind`, which is
`public` or a kind of private matter. Private sentences are Tatoeba's (CC BY 2.0 FR), by the words
of their English translations; requests are of NLU-Evaluation-Data (CC BY 4.0), Arena-Hard and
IFEval (Apache-2.0); questions to doctors of medical-question-answer-data (MIT), and CVs without
names of resume-matcher (free with credit). What is fetched stays in `FOLDER/packages` and is
committed nowhere.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from everyday_texts import clone, tatoeba
from public_texts import SEED

MOST = 2500
"""Texts of a language, source and kind at most."""

_PAIRS = {
    "ar": ("s7777/ArabicToEnglish", "ara.txt"),
    "hi": ("shambhavisud/Machine-Translation-English-Hindi", "hin.txt"),
    "ko": ("jh868/pytorch_study", "kor-eng/kor.txt"),
    "sv": ("emilolio/translation-transformer", "swe.txt"),
    "tr": ("devcem/NMT-on-PHP", "tur.txt"),
    "zh": ("13luoyu/Transformer-machine-translation", "cmn.txt"),
}
"""Repositories and files of Tatoeba's sentences beside English ones, by language."""

_REQUESTS = (
    "CrossValidation/autoGeneFromRealAnno/autoGene_2018_03_22-13_01_25_169/"
    "CrossValidation/KFold_1/trainset"
)
_OTHERS = {
    "xliuhw/NLU-Evaluation-Data": _REQUESTS,
    "lm-sys/arena-hard-auto": "data/arena-hard-v0.1/question.jsonl",
    "josejg/instruction_following_eval": "instruction_following_eval/data/input_data.jsonl",
    "LasseRegin/medical-question-answer-data": ".",
    "shubhamShaurya5/resume-matcher": "UpdatedResumeDataSet.csv",
}
"""Repositories, and what is read of them."""

_PERSONAL_REQUESTS = ("email", "social", "calendar", "lists", "general")
"""Intents whose texts may name people or an owner's plans."""

_OF_THE_WRITER = re.compile(r"(?i)\b(?:I|I'm|I've|I'd|me|my|mine|we|we're|our|us)\b")
_ABOUT_OTHERS = re.compile(r"\b(?:Tom|Mary|John|Sami|Layla|Ziri|Yanni)\b")
_MATTERS = {
    "sexuality": r"gay|lesbian|bisexual|virgin|condom|sex life",
    "religion": r"converted|baptized|atheist|Muslim|Catholic|Buddhist|Jewish|went to church",
    "health": r"cancer|diabet\w+|pregnan\w+|miscarriage|depress\w+|insomnia|allergic|fever|"
    r"headaches?|migraines?|stomach ?ache|toothache|sore throat|coughing|vomit\w*|dizzy|"
    r"hospital|surgery|operated on|medicine|pills|medication|blood pressure|heart attack|"
    r"diarrhea|nause\w+|injured|broke (?:my|his|her) (?:leg|arm|nose)|hurts|pains?|disease|"
    r"illness|ill|sick|a cold|the flu|see a doctor|the dentist|lost weight|alcoholic|wheelchair|"
    r"therapist|psychiatrist|breast|asthma",
    "family": r"divorc\w+|broke up|breakup|dumped|left me|cheat(?:ed|ing) on|custody|adopted|"
    r"passed away|died|funeral|abus\w+|beats? me|proposed to me|engaged to|in love with|"
    r"my ex|get married|got married|marry me|ran away from home|orphan|widow",
    "money": r"debts?|owes? (?:him|her|you|them|me|the|\$\d+)|salary|bankrupt|mortgage|loan|"
    r"can't afford|unpaid|savings|my rent|bank account|health insurance",
    "law": r"lawyers?|arrested|jail|prison|the police|sued?|in court|robbed|murder\w*|stole\w* my",
    "work": r"got fired|was fired|lost (?:my|his|her) job|quit my job|unemployed|my boss|"
    r"resign\w*|laid off|got promoted|job interview|out of work",
    "personal": r"lonely|kill myself|suicid\w+|want to die|hate myself|ashamed of|my diary|"
    r"scared of|crying|don't tell|keep it a secret|nobody knows|bullied|regret",
}
"""Words in a sentence of the writer, by what it is about then."""

_KINDS = {kind: re.compile(rf"(?i)\b(?:{words})\b") for kind, words in _MATTERS.items()}


class Labelled(msgspec.Struct, frozen=True):
    """A text, where it is from, and its kind."""

    text: str
    language: str
    source: str
    kind: str


def kind_of(english: str) -> str | None:
    """Return what a sentence of the writer is about, by its words; None for nothing private."""
    if _OF_THE_WRITER.search(english) and not _ABOUT_OTHERS.search(english):
        return next((kind for kind, words in _KINDS.items() if words.search(english)), None)
    return None


def _sentences(folder: Path) -> Iterator[Labelled]:
    pairs = [(language, text, english) for text, language, english in tatoeba(folder)]
    for language, (repository, name) in _PAIRS.items():
        path = folder / repository.replace("/", "+") / name
        for line in path.read_text().splitlines():
            english, _, rest = line.partition("\t")
            pairs.append((language, rest.partition("\t")[0], english))
    for language, text, english in pairs:
        if text and (kind := kind_of(english)):
            yield Labelled(text, language, "tatoeba", kind)
            yield Labelled(english, "en", "tatoeba", kind)


def _rows(folder: Path, repository: str, path: str) -> Iterator[dict[str, str]]:
    for line in (folder / repository.replace("/", "+") / path).read_text().splitlines():
        yield json.loads(line)


def _requests(folder: Path) -> Iterator[Labelled]:
    name = "xliuhw/NLU-Evaluation-Data"
    for path in sorted((folder / name.replace("/", "+") / _REQUESTS).glob("*.csv")):
        if path.name.startswith(_PERSONAL_REQUESTS):
            continue
        for row in csv.DictReader(io.StringIO(path.read_text("utf-8", "replace")), delimiter=";"):
            text = row["answer_from_user"] or ""
            yield Labelled(text, "en", name, "public")
    name = "lm-sys/arena-hard-auto"
    for row in _rows(folder, name, _OTHERS[name]):
        yield Labelled(row["turns"][0]["content"], "en", name, "public")  # type: ignore[index]
    name = "josejg/instruction_following_eval"
    for row in _rows(folder, name, _OTHERS[name]):
        yield Labelled(row["prompt"], "en", name, "public")


def _patients(folder: Path) -> Iterator[Labelled]:
    name = "LasseRegin/medical-question-answer-data"
    for site in ("icliniq", "ehealthforum", "questionDoctor"):
        path = folder / name.replace("/", "+") / f"{site}QAs.json"
        for row in json.loads(path.read_text()):
            text = " ".join(row.get("question_text", row["question"]).split())
            if _OF_THE_WRITER.search(text):
                yield Labelled(text, "en", name, "health")


def _cvs(folder: Path) -> Iterator[Labelled]:
    name = "shubhamShaurya5/resume-matcher"
    with (folder / name.replace("/", "+") / _OTHERS[name]).open(newline="") as file:
        for row in csv.DictReader(file):
            words = row["cleaned_resume"].split()
            for start in range(0, len(words), 120):
                yield Labelled(" ".join(words[start : start + 120]), "en", name, "work")


def collect(folder: Path) -> None:
    """Write the file."""
    packages = folder / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    for repository, path in (*_PAIRS.values(), *_OTHERS.items()):
        target = packages / repository.replace("/", "+")
        clone(f"https://github.com/{repository}", path, target)
    groups: dict[tuple[str, str, str], dict[str, Labelled]] = {}
    for read in (_sentences, _requests, _patients, _cvs):
        for one in read(packages):
            if 8 <= len(one.text) <= 4000:
                groups.setdefault((one.language, one.source, one.kind), {})[one.text] = one
    draw = random.Random(SEED)
    with (folder / "labelled.jsonl").open("wb") as out:
        for (language, source, kind), texts in sorted(groups.items()):
            chosen = draw.sample(sorted(texts), min(MOST, len(texts)))
            print(f"{language} {source} {kind}: {len(chosen)} of {len(texts)}", file=sys.stderr)
            out.writelines(msgspec.json.encode(texts[text]) + b"\n" for text in chosen)


if __name__ == "__main__":
    collect(Path(sys.argv[1]).resolve())
