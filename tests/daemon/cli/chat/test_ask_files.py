"""`ingle ask-files`: passages of a folder become part of a prompt."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]
SEARCH = "/ingle/v1/documents/search"
PASSAGE = {"file": "a.md", "first": 3, "last": 5, "text": "Masts\x1b[2J are of wood."}


def test_answer_is_given_with_passages(daemon: Any, ingle: Run, tmp_path: Path) -> None:
    daemon.passages = {"passages": [PASSAGE], "files": 3, "model": "minilm"}
    done = ingle("ask-files", str(tmp_path), "Which", "masts?", "--model", "smollm2")
    assert (done.returncode, done.stdout) == (0, "Hello wörld.\n")
    assert "1 passage of 3 files, found by words and by meaning (minilm)." in done.stderr
    (asked,) = daemon.requests_to("POST", SEARCH)
    assert (asked["folder"], asked["question"]) == (str(tmp_path), "Which masts?")
    (sent,) = daemon.requests_to("POST", "/ingle/v1/generations")
    assert '<file name="a.md:3-5">' in sent["messages"][0]["content"]
    assert "Which masts?" in sent["messages"][0]["content"]
    shown = ingle("ask-files", str(tmp_path), "masts", "--passages")
    assert shown.stdout == "a.md:3-5\nMasts[2J are of wood.\n\n"
    found = json.loads(ingle("ask-files", str(tmp_path), "masts", "--json").stdout)
    assert found["passages"][0]["text"] == PASSAGE["text"]


def test_prompt_is_filled_with_passages(daemon: Any, ingle: Run, tmp_path: Path) -> None:
    daemon.passages = {"passages": [PASSAGE | {"text": "x" * 4000}] * 3, "files": 1}
    for options, count in ((), 2), (("--most", "3"), 3):
        found = ingle("ask-files", str(tmp_path), "masts", "--json", *options)
        assert len(json.loads(found.stdout)["passages"]) == count
    daemon.passages = {"passages": [PASSAGE | {"text": "x" * 10_000}], "files": 1}
    assert "1 passage of 1 file" in ingle("ask-files", str(tmp_path), "a", "--passages").stderr


def test_empty_question_is_refused(ingle: Run, tmp_path: Path) -> None:
    done = ingle("ask-files", str(tmp_path), " ")
    assert done.returncode == 2
    assert "The question is empty." in done.stderr
