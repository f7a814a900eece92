"""Measures the search in documents on questions about ingle's own pages, or a folder's.

`python bench/document_recall.py [--model FILE --name NAME] [--questions FILE] [FOLDER]` prints
recall@1, @5, @8, @10 and in a prompt of each set of questions, by words alone or with an embedding
model, and the questions that miss.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ingle.daemon.client.document_types import PROMPT_PASSAGES, FoundPassage, FoundPassages
from ingle.daemon.documents.document_index import DocumentIndex
from ingle.daemon.documents.folder_reader import FolderReader

BENCH = Path(__file__).parent
QUESTIONS = BENCH / "document_questions.txt"
FIRST = 5
EIGHT = 8
LAST = 10
_SECTION = "§ "


@dataclass(frozen=True)
class DocumentQuestion:
    """A question, and what answers it: words of a passage in a file, or `§` and a heading."""

    file: str
    words: str
    question: str
    set: int

    def is_in(self, passage: FoundPassage) -> bool:
        """Whether the passage answers."""
        if self.words.startswith(_SECTION):
            found = passage.title.split(" › ")[-1] == self.words.removeprefix(_SECTION)
        else:
            found = self.words in passage.text
        return found and passage.file == self.file

    def is_outdated(self, folder: Path) -> bool:
        """Whether no passage answers any more."""
        return self.words.removeprefix(_SECTION) not in (folder / self.file).read_text()


@dataclass(frozen=True)
class Recall:
    """Of each question that has an answer, the place of the first passage that is one, or none.

    `in_prompt` says of each whether a prompt has it.
    """

    places: Sequence[tuple[DocumentQuestion, int | None]]
    in_prompt: Sequence[bool]
    outdated: Sequence[DocumentQuestion]

    def share(self, most: int = FIRST, number: int = 0) -> float:
        """Return the share with an answer among the first `most`, of all or of one set."""
        places = [place for asked, place in self.places if number in (0, asked.set)]
        return sum(place is not None and place < most for place in places) / max(1, len(places))

    def share_in_prompt(self, number: int = 0) -> float:
        """Return the share with an answer in the prompt, of all or of one set."""
        pairs = zip(self.places, self.in_prompt, strict=True)
        found = [is_in for (asked, _), is_in in pairs if number in (0, asked.set)]
        return sum(found) / max(1, len(found))

    @property
    def missed(self) -> list[DocumentQuestion]:
        """Return the questions without an answer among the first five."""
        return [asked for asked, place in self.places if place is None or place >= FIRST]


def read_questions(questions: Path = QUESTIONS) -> list[DocumentQuestion]:
    """Return the questions; a line `# Set …` begins each set."""
    found: list[DocumentQuestion] = []
    number = 0
    for line in questions.read_text().splitlines():
        number += line.startswith("# Set ")
        if line and not line.startswith("#"):
            file, words, question = line.replace("\\n", "\n").split(" | ")
            found.append(DocumentQuestion(file, words, question, number))
    return found


def measure_recall(
    folder: Path, questions: Path, search: Callable[[str], Sequence[FoundPassage]]
) -> Recall:
    """Ask the questions; `search` returns the first `PROMPT_PASSAGES`."""
    places: list[tuple[DocumentQuestion, int | None]] = []
    in_prompt: list[bool] = []
    outdated: list[DocumentQuestion] = []
    for asked in read_questions(questions):
        if asked.is_outdated(folder):
            outdated.append(asked)
            continue
        passages = search(asked.question)
        hits = (place for place, passage in enumerate(passages) if asked.is_in(passage))
        place = next(hits, None)
        places.append((asked, place))
        sent = FoundPassages(passages=list(passages), files=0).for_prompt().passages
        in_prompt.append(place is not None and place < len(sent))
    return Recall(places, in_prompt, outdated)


def recall_by_words(folder: Path, questions: Path = QUESTIONS) -> Recall:
    """Index the Markdown files of a folder, and ask without a model."""
    with tempfile.TemporaryDirectory() as place:
        index = DocumentIndex(Path(place, "index.db"))
        with closing(index):
            reader = FolderReader(folder, index)
            reader.scan(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))
            while reader.state().waiting:
                reader.read(1.0)
            return measure_recall(
                folder, questions, lambda asked: index.find(asked, PROMPT_PASSAGES)[0]
            )


def recall_with_model(folder: Path, questions: Path, model: Path, name: str) -> Recall:
    """Have a daemon index the folder with an embedding model, and ask that."""
    from embedding import DocumentServer
    from server import Settings

    with tempfile.TemporaryDirectory() as place:
        server = DocumentServer(Settings(0, slots=1, context=0), Path(place), name)
        try:
            server.start(model)
            found = server.search(folder)
            while found.model != name:
                time.sleep(1.0)
                found = server.search(folder)
            server.wait_for_vectors()
            return measure_recall(
                folder,
                questions,
                lambda asked: server.search(folder, asked, PROMPT_PASSAGES).passages,
            )
        finally:
            server.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=BENCH.parent / "docs")
    parser.add_argument("--model", type=Path, help="a GGUF file of an embedding model")
    parser.add_argument("--name", default="model", help="its name, which decides its prefixes")
    parser.add_argument("--questions", type=Path, default=QUESTIONS, help="a file of questions")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if options.model is None:
        recall = recall_by_words(folder, options.questions)
    else:
        model = options.model.resolve()
        recall = recall_with_model(folder, options.questions, model, options.name)
    for asked in recall.missed:
        print("missed:", asked.question)
    for asked in recall.outdated:
        print("no longer in the documents:", asked.words)
    for number in sorted({asked.set for asked, _ in recall.places}):
        places = (1, FIRST, EIGHT, LAST)
        shares = (f"@{most}: {recall.share(most, number):.2f}" for most in places)
        in_prompt = f"in a prompt: {recall.share_in_prompt(number):.2f}"
        print(f"set {number}: recall{', '.join(shares)}, {in_prompt}")
    print(f"all {len(recall.places)}: {recall.share():.3f}, {recall.share_in_prompt():.3f}")


if __name__ == "__main__":
    main()
