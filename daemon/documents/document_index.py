"""The index of one folder: an SQLite database of passages, their words and their vectors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..client.document_types import FoundPassage, Unit
from .index_words import match_expression, separated
from .passages import TextPassage

VERSION = 1
"""Of the tables; an index of another version is made anew."""
CANDIDATES = 60
"""Passages of each ranking that are merged."""
_RANK_OFFSET = 5
"""Of reciprocal rank fusion: small, since what is first in either of two rankings counts most."""
_TITLE_WEIGHT = 2.0
_LEAST_SHARE = 0.9
"""Of passages that need a vector before vectors count."""
_TABLES = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, size INTEGER NOT NULL,
    modified INTEGER NOT NULL, digest BLOB NOT NULL, unit TEXT NOT NULL
);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    title TEXT NOT NULL, text TEXT NOT NULL, digest BLOB NOT NULL
);
CREATE INDEX passages_of_file ON passages (file);
CREATE INDEX passages_of_digest ON passages (digest);
CREATE TABLE vectors (
    digest BLOB NOT NULL, model TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (digest, model)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    title, text, content='', tokenize='porter unicode61 remove_diacritics 2'
);
"""

Vectors = NDArray[np.float32]


class IndexedFile(NamedTuple):
    """What is known of a file: bytes, nanoseconds of its last change, and a digest.

    A file without text has the unit "".
    """

    size: int
    modified: int
    digest: bytes
    unit: str


class DocumentIndex:
    """Blocks; only one process may have it open."""

    def __init__(self, path: Path) -> None:
        """Open the index, or begin one; an unreadable one is made anew. Raises `sqlite3.Error`."""
        self._path = path
        try:
            self._rows = self._open()
        except sqlite3.DatabaseError:
            path.unlink(missing_ok=True)
            self._rows = self._open()
        self._matrix: tuple[str, list[int], Vectors] | None = None

    def _open(self) -> sqlite3.Connection:
        rows = sqlite3.connect(self._path, isolation_level=None)
        try:
            # Freed pages are overwritten. A power cut may cost the index, a killed process not.
            for pragma in ("secure_delete=ON", "journal_mode=DELETE", "synchronous=OFF"):
                rows.execute(f"PRAGMA {pragma}")
            rows.execute("PRAGMA temp_store=MEMORY")
            (version,) = rows.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise sqlite3.DatabaseError("an index of another version")
            if version == 0:
                rows.executescript(f"BEGIN; {_TABLES} PRAGMA user_version={VERSION}; COMMIT;")
        except BaseException:
            rows.close()
            raise
        return rows

    def close(self) -> None:
        """Close the database."""
        self._rows.close()

    def begin(self) -> None:
        """Begin a transaction."""
        self._rows.execute("BEGIN")

    def commit(self) -> None:
        """End it."""
        self._rows.execute("COMMIT")

    def files(self) -> dict[str, IndexedFile]:
        """Return all files by name."""
        found = self._rows.execute("SELECT name, size, modified, digest, unit FROM files")
        return {row[0]: IndexedFile(*row[1:]) for row in found}

    def keep(self, name: str, file: IndexedFile, passages: Iterable[TextPassage]) -> None:
        """Replace what is known of a file."""
        self.remove(name)
        added = self._rows.execute(
            "INSERT INTO files (name, size, modified, digest, unit) VALUES (?, ?, ?, ?, ?)",
            (name, *file),
        )
        for passage in passages:
            digest = blake2b(f"{passage.title}\n{passage.text}".encode(), digest_size=16).digest()
            row = self._rows.execute(
                "INSERT INTO passages (file, first, last, title, text, digest)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (added.lastrowid, *passage, digest),
            )
            self._rows.execute(
                "INSERT INTO words (rowid, title, text) VALUES (?, ?, ?)",
                (row.lastrowid, *_words(name, passage.title, passage.text)),
            )
        self._matrix = None

    def touch(self, name: str, file: IndexedFile) -> None:
        """Note that a file was written again with the same bytes."""
        self._rows.execute(
            "UPDATE files SET size = ?, modified = ? WHERE name = ?",
            (file.size, file.modified, name),
        )

    def remove(self, name: str) -> None:
        """Erase a file's passages."""
        row = self._rows.execute("SELECT id FROM files WHERE name = ?", (name,)).fetchone()
        if row is None:
            return
        old = self._rows.execute("SELECT id, title, text FROM passages WHERE file = ?", row)
        # A table of words without a content of its own has to be given what it forgets.
        self._rows.executemany(
            "INSERT INTO words (words, rowid, title, text) VALUES ('delete', ?, ?, ?)",
            [(number, *_words(name, title, text)) for number, title, text in old.fetchall()],
        )
        self._rows.execute("DELETE FROM passages WHERE file = ?", row)
        self._rows.execute("DELETE FROM files WHERE id = ?", row)
        self._matrix = None

    def tidy(self) -> None:
        """Erase vectors and words that no passage has any more."""
        self._rows.execute("DELETE FROM vectors WHERE digest NOT IN (SELECT digest FROM passages)")
        self._rows.execute("INSERT INTO words (words) VALUES ('optimize')")

    def count(self) -> int:
        """Return the number of passages."""
        return self._rows.execute("SELECT count(*) FROM passages").fetchone()[0]

    def model(self) -> str:
        """Return the model that most vectors are from, "" without any."""
        row = self._rows.execute(
            "SELECT model FROM vectors GROUP BY model ORDER BY count(*) DESC LIMIT 1"
        ).fetchone()
        return row[0] if row is not None else ""

    def pending(self, model: str, most: int) -> list[tuple[bytes, str]]:
        """Return digests and texts of passages that the model has no vectors of."""
        return self._rows.execute(
            "SELECT digest, max(title || char(10) || text) FROM passages WHERE digest NOT IN"
            " (SELECT digest FROM vectors WHERE model = ?) GROUP BY digest LIMIT ?",
            (model, most),
        ).fetchall()

    def keep_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        """Keep vectors of unit length, one a digest, as half floats."""
        halves = vectors.astype(np.float16)
        self._rows.executemany(
            "INSERT OR REPLACE INTO vectors (digest, model, vector) VALUES (?, ?, ?)",
            [(digest, model, half.tobytes()) for digest, half in zip(digests, halves, strict=True)],
        )
        self._matrix = None

    def find(
        self, question: str, most: int, model: str = "", vector: Vectors | None = None
    ) -> tuple[list[FoundPassage], bool]:
        """Return the best passages first, and whether the question's vector took part."""
        rankings = [self._by_words(question)]
        nearest = self._by_meaning(model, vector) if vector is not None else []
        if nearest:
            rankings.append(nearest)
        scores: dict[int, float] = {}
        for ranking in rankings:
            for rank, number in enumerate(ranking, 1):
                scores[number] = scores.get(number, 0.0) + 1 / (_RANK_OFFSET + rank)
        best = sorted(scores, key=lambda number: -scores[number])[:most]
        return [self._passage(number) for number in best], bool(nearest)

    def _by_words(self, question: str) -> list[int]:
        expression = match_expression(question)
        if not expression:
            return []
        found = self._rows.execute(
            "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words, ?, 1.0) LIMIT ?",
            (expression, _TITLE_WEIGHT, CANDIDATES),
        )
        return [number for (number,) in found]

    def _by_meaning(self, model: str, vector: Vectors) -> list[int]:
        if self._matrix is None or self._matrix[0] != model:
            found = self._rows.execute(
                "SELECT passages.id, vector FROM passages JOIN vectors USING (digest)"
                " WHERE model = ? AND length(vector) = ?",
                (model, 2 * vector.size),
            ).fetchall()
            joined = np.frombuffer(b"".join(half for _, half in found), np.float16)
            matrix = joined.astype(np.float32).reshape(len(found), vector.size)
            self._matrix = model, [number for number, _ in found], matrix
        _, numbers, matrix = self._matrix
        if len(numbers) < _LEAST_SHARE * self.count():  # the nearest may have none yet
            return []
        order = np.argsort(-(matrix @ vector))[:CANDIDATES] if numbers else ()
        return [numbers[index] for index in order]

    def _passage(self, number: int) -> FoundPassage:
        file, unit, first, last, title, text = self._rows.execute(
            "SELECT name, unit, first, last, title, text FROM passages"
            " JOIN files ON files.id = file WHERE passages.id = ?",
            (number,),
        ).fetchone()
        kind: Unit = unit
        return FoundPassage(file=file, first=first, last=last, unit=kind, title=title, text=text)


def _words(name: str, title: str, text: str) -> tuple[str, str]:
    return separated(f"{name} {title}"), separated(text)
