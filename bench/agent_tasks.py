"""Thirty small tasks for an agent in a folder with a few files, and whether each is done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

Check = Callable[[Path, str], bool]
"""Whether a task is done, by its folder and the agent's last words."""


@dataclass(frozen=True)
class Task:
    """What is asked, the files that are there, and whether it is done."""

    said: str
    done: Check
    files: dict[str, str] = field(default_factory=dict[str, str])


def _says(*words: str) -> Check:
    return lambda _folder, answer: all(word.casefold() in answer.casefold() for word in words)


def _has(file: str, *parts: str, without: str = "") -> Check:
    def done(folder: Path, _answer: str) -> bool:
        path = folder / file
        text = path.read_text(errors="replace") if path.is_file() else ""
        return all(part in text for part in parts) and (not without or without not in text)

    return done


def _prints(file: str, output: str) -> Check:
    def done(folder: Path, _answer: str) -> bool:
        command = [sys.executable, str(folder / file)]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=20)
        return ran.stdout.strip() == output

    return done


_CONFIG = "[server]\nhost = 10.4.0.7\nport = 8123\n\n[log]\nlevel = warning\n"
_NOTES = "Monday: bread\nTuesday: milk\nWednesday: 12 eggs\nThursday: tea\n"
_PEOPLE = "name,city,age\nAda,Ghent,36\nBo,Turin,51\nCleo,Lyon,29\n"
_AREA = "def area(width, height):\n    return width + height\n\n\nprint(area(6, 7))\n"
_HELLO = 'def greet(name):\n    return "Hello, " + name\n\n\nprint(greet("Ada"))\n'
_TOTAL = "prices = [3, 4, 5]\ntotal = 0\nfor price in prices:\n    total = price\nprint(total)\n"

TASKS = (
    Task("Which port does config.ini set?", _says("8123"), {"config.ini": _CONFIG}),
    Task("Which host does config.ini set?", _says("10.4.0.7"), {"config.ini": _CONFIG}),
    Task("What is to be bought on Wednesday by notes.txt?", _says("egg"), {"notes.txt": _NOTES}),
    Task("In which city does Cleo live by people.csv?", _says("Lyon"), {"people.csv": _PEOPLE}),
    Task("How old is Bo by people.csv?", _says("51"), {"people.csv": _PEOPLE}),
    Task(
        "Which file of this folder contains the word 'walrus'?",
        _says("b.txt"),
        {"a.txt": "a seal\n", "b.txt": "a walrus\n", "c.txt": "a whale\n"},
    ),
    Task(
        "How many files with the ending .log are in this folder?",
        _says("4"),
        {"1.log": "", "2.log": "", "3.log": "", "4.log": "", "notes.txt": _NOTES},
    ),
    Task("How many lines has numbers.txt?", _says("37"), {"numbers.txt": "7\n" * 37}),
    Task("Which function does area.py define?", _says("area"), {"area.py": _AREA}),
    Task("What does `python3 hello.py` print?", _says("Hello, Ada"), {"hello.py": _HELLO}),
    Task("Run `echo ghent-$((6 * 7))` and say what it prints.", _says("ghent-42")),
    Task("Compute 3917 * 482 with python3, and say the result.", _says("1887994")),
    Task("Say the sha256 of key.txt.", _says("25731a6655f9"), {"key.txt": "ghent\n"}),
    Task("Create the file made.txt with the text: done", _has("made.txt", "done")),
    Task(
        "Create the folder out and in it the file a.txt with the word: yes",
        _has("out/a.txt", "yes"),
    ),
    Task("Write a program five.py that prints the number 5.", _prints("five.py", "5")),
    Task("Write a program sum.py that prints the sum of 1 to 100.", _prints("sum.py", "5050")),
    Task(
        "In config.ini change the port to 9000.",
        _has("config.ini", "port = 9000", "10.4.0.7", without="8123"),
        {"config.ini": _CONFIG},
    ),
    Task(
        "In config.ini set the log level to debug.",
        _has("config.ini", "level = debug", "port = 8123"),
        {"config.ini": _CONFIG},
    ),
    Task(
        "Replace 'milk' by 'oat milk' in notes.txt.",
        _has("notes.txt", "oat milk", "bread", "tea"),
        {"notes.txt": _NOTES},
    ),
    Task(
        "Append the line 'Friday: soap' to notes.txt.",
        _has("notes.txt", "Monday: bread", "Friday: soap"),
        {"notes.txt": _NOTES},
    ),
    Task(
        "Add the row Dan,Riga,44 to people.csv.",
        _has("people.csv", "Ada,Ghent,36", "Dan,Riga,44"),
        {"people.csv": _PEOPLE},
    ),
    Task("area.py must print 42. Mend it.", _prints("area.py", "42"), {"area.py": _AREA}),
    Task("total.py must print 12. Mend it.", _prints("total.py", "12"), {"total.py": _TOTAL}),
    Task(
        "Change hello.py so that it greets Bo instead of Ada.",
        _prints("hello.py", "Hello, Bo"),
        {"hello.py": _HELLO},
    ),
    Task(
        "In hello.py rename the function greet to welcome, also where it is called.",
        lambda folder, answer: (
            _prints("hello.py", "Hello, Ada")(folder, answer)
            and _has("hello.py", "def welcome", without="greet")(folder, answer)
        ),
        {"hello.py": _HELLO},
    ),
    Task("Rename the file old.txt to new.txt.", _has("new.txt", "kept"), {"old.txt": "kept\n"}),
    Task("Copy a.txt to b.txt.", _has("b.txt", "copied"), {"a.txt": "copied\n"}),
    Task(
        "Delete the file trash.txt.",
        lambda folder, _answer: not (folder / "trash.txt").exists() and (folder / "a.txt").exists(),
        {"trash.txt": "x", "a.txt": "y"},
    ),
    Task(
        "Write the number of lines of numbers.txt to count.txt.",
        _has("count.txt", "23"),
        {"numbers.txt": "7\n" * 23},
    ),
)
