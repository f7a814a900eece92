"""One private text inside public documentation: how often it is found.

    export PYTHONPATH=bench:bench/privacy
    python bench/privacy/hidden.py OTHERS PUBLIC [--most N] [--save]

OTHERS and PUBLIC are folders that `others.py` and `public_texts.py` filled. Each text of a
sensitive set that alone is private to the networks is put into documents of packages that nothing
was trained on, of several lengths; beside it stands how many of the documents are private without
it. Only the networks are asked, not the structured detectors.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from languages import own
from machine import save  # bench/, on the path beside this folder
from others import LATER, SETS
from topics import PUBLIC_LENGTHS, SEED, interval, public_sets

from ingle.daemon.routing.detectors.natural_language.passage_detector import PassageDetector
from ingle.daemon.routing.detectors.natural_language.passage_network import PassageNetwork

LENGTHS = PUBLIC_LENGTHS[2:]
"""Characters of a document."""

OUTSIDE = ("en, to therapists", "en, posts", "en, situations", "en, of patients")
"""Sets of other authors, in which texts of up to `LONGEST` characters are taken."""

LONGEST = 600


def sensitive_texts(folder: Path, most: int) -> list[str]:
    """Texts of all sets, as many of each at most."""
    draw = random.Random(SEED)
    sets = SETS | LATER
    found = [sorted(set(sets[name][1](folder))) for name in OUTSIDE]
    found += [own("sensitive", name)["en"] for name in ("everyday", "later")]
    kept = [[text for text in texts if 8 <= len(text) <= LONGEST] for texts in found]
    return [text for texts in kept for text in draw.sample(texts, min(most, len(texts)))]


def documents(folder: Path) -> dict[int, list[str]]:
    """English documentation and code, by length in characters."""
    found: dict[int, list[str]] = {}
    for prompts in public_sets(folder):
        name, _, length = prompts.name.rpartition(", ")
        if int(length) in LENGTHS and name in ("documentation, en", "code"):
            found.setdefault(int(length), []).extend(
                text for group in prompts.groups for text in group
            )
    return found


def is_private(detector: PassageDetector, text: str) -> bool:
    """Whether the networks find a topic in it."""
    return next(iter(detector.find(text)), None) is not None


def shares(
    detector: PassageDetector, hosts: Sequence[str], texts: Sequence[str]
) -> dict[str, object]:
    """The documents that are private, and those that are with a text in them."""
    draw = random.Random(SEED)
    kept = [(int(is_private(detector, host)), 1) for host in hosts]
    found: list[tuple[int, int]] = []
    for text in texts:
        host = draw.choice(hosts)
        cut = host.rfind("\n", 0, draw.randrange(len(host))) + 1
        held = f"{host[:cut]}\n{text}\n\n{host[cut:]}"
        found.append((int(is_private(detector, held)), 1))
    return {
        name: {"texts": len(rows), "share": sum(one for one, _ in rows) / len(rows)}
        | {"interval": interval(rows)}
        for name, rows in (("documents kept", kept), ("texts found", found))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("others", type=Path)
    parser.add_argument("public", type=Path)
    parser.add_argument("--most", type=int, default=40, help="texts of a set at most")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    detector = PassageDetector(PassageNetwork())
    texts = sensitive_texts(options.others, options.most)
    alone = [text for text in texts if is_private(detector, text)]
    print(f"{len(alone)} of {len(texts)} are private alone")
    figures: dict[str, object] = {"texts": len(texts), "private alone": len(alone)}
    for length, hosts in documents(options.public).items():
        figures[str(length)] = shares(detector, hosts, alone)
        print(length, figures[str(length)])
    if options.save:
        print(save("privacy-hidden", figures), file=sys.stderr)


if __name__ == "__main__":
    main()
