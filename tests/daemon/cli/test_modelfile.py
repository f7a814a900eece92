"""Modelfiles become bodies of `POST /api/create`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.daemon.cli.command_errors import UsageError
from ingle.daemon.cli.modelfile import read_modelfile

WHOLE = '''\
# A comment.
FROM smollm2:135m

PARAMETER temperature 0.3
parameter num_ctx 4096
PARAMETER stop "<|end|>"
PARAMETER stop User:
SYSTEM """
You answer
in one sentence.
"""
TEMPLATE """{{ messages }}"""
MESSAGE user Hi "there"
MESSAGE assistant Hello.
LICENSE "MIT"
'''


def test_modelfile_with_every_instruction() -> None:
    assert read_modelfile(WHOLE, "Modelfile", Path("/x")) == {
        "from": "smollm2:135m",
        "parameters": {"temperature": 0.3, "num_ctx": 4096, "stop": ["<|end|>", "User:"]},
        "system": "\nYou answer\nin one sentence.\n",
        "template": "{{ messages }}",
        "messages": [
            {"role": "user", "content": 'Hi "there"'},
            {"role": "assistant", "content": "Hello."},
        ],
        "license": "MIT",
    }


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("./m.gguf", "/x/m.gguf"),
        ("m.gguf", "/x/m.gguf"),
        ("/m/a.gguf", "/m/a.gguf"),
        ("me/m", "me/m"),
    ],
)
def test_paths_count_from_the_folder_of_the_file(source: str, found: str) -> None:
    assert read_modelfile(f"FROM {source}\n", "Modelfile", Path("/x"))["from"] == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SYSTEM x\n", "has no FROM"),
        ("FROM a\nADAPTER ./b\n", "Line 2 of Modelfile has the instruction ADAPTER"),
        ("FROM a\n\nhello\n", "Line 3 of Modelfile is no instruction"),
        ('FROM a\nSYSTEM """b\nc\n', "in line 2 of Modelfile is not closed"),
        ("FROM a\nPARAMETER stop\n", "'stop' no value"),
        ("FROM a\nMESSAGE robot hi\n", "a message of 'robot'"),
    ],
)
def test_invalid_modelfiles_are_refused_with_the_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_modelfile(text, "Modelfile", Path("/x"))
