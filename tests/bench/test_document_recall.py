"""The search in documents finds what questions about ingle's pages ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from document_recall import recall_by_words


@pytest.mark.slow
def test_words_alone_find_most_passages() -> None:
    recall = recall_by_words(Path(__file__).parents[2] / "docs")
    assert recall.share(number=1) >= 0.6, [missed.question for missed in recall.missed]
    assert len(recall.outdated) <= 15, "questions need passages that are still there"
