"""Measures the search in documents on questions about ingle's own pages, by words only.

`python bench/document_recall.py [FOLDER]` prints recall@5 and the questions that miss.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ingle.daemon.documents.document_index import DocumentIndex
from ingle.daemon.documents.folder_reader import FolderReader

BENCH = Path(__file__).parent
FIRST = 5


@dataclass(frozen=True)
class DocumentQuestion:
    """A question, and words of the passage in a file that answers it."""

    file: str
    words: str
    question: str


@dataclass(frozen=True)
class Recall:
    """Questions whose passage is among the first five, those whose is not, and those without."""

    found: Sequence[DocumentQuestion]
    missed: Sequence[DocumentQuestion]
    outdated: Sequence[DocumentQuestion]

    @property
    def share(self) -> float:
        """Return the share of questions whose passage was found."""
        return len(self.found) / max(1, len(self.found) + len(self.missed))


def read_questions() -> list[DocumentQuestion]:
    """Return the questions."""
    lines = (BENCH / "document_questions.txt").read_text().splitlines()
    parts = [line.replace("\\n", "\n").split(" | ") for line in lines if line[:1] not in ("", "#")]
    return [DocumentQuestion(*part) for part in parts]


def measure_recall(folder: Path) -> Recall:
    """Index the Markdown files of a folder, and ask the questions."""
    with tempfile.TemporaryDirectory() as place:
        index = DocumentIndex(Path(place, "index.db"))
        reader = FolderReader(folder, index)
        reader.scan(path.name for path in folder.glob("*.md"))
        while reader.state().waiting:
            reader.read(1.0)
        found: list[DocumentQuestion] = []
        missed: list[DocumentQuestion] = []
        outdated: list[DocumentQuestion] = []
        for asked in read_questions():
            passages, _ = index.find(asked.question, FIRST)
            if asked.words not in (folder / asked.file).read_text():
                outdated.append(asked)
            elif any(each.file == asked.file and asked.words in each.text for each in passages):
                found.append(asked)
            else:
                missed.append(asked)
        index.close()
    return Recall(found, missed, outdated)


if __name__ == "__main__":
    measured = measure_recall(Path(sys.argv[1] if len(sys.argv) > 1 else BENCH.parent / "docs"))
    for asked in measured.missed:
        print("missed:", asked.question)
    for asked in measured.outdated:
        print("no longer in the documents:", asked.words)
    print(f"recall@{FIRST}: {measured.share:.3f} of {len(measured.found) + len(measured.missed)}")
