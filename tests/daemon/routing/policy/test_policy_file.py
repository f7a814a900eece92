"""Parsing of policy files: strict, with the place of each error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ingle.daemon.routing.detectors.finding import Sensitivity
from ingle.daemon.routing.policy.policy import Policy
from ingle.daemon.routing.policy.policy_file import LARGEST, PolicyError, load_policy, parse_policy
from ingle.daemon.routing.policy.policy_tables import policy_schema

COMPLETE = """
words = ["Project Heron"]
folders = ["~/clients"]
least_certainty = 0.3

[classes]
person = "never"
person_in_context = "never"

[routes.auto]
prefer = "local"
escalate = ["uncertain", "valuable"]

[routes.work]
description = "for work"
local = "qwen3:4b"
cloud = "openai/gpt-5"
redact = "always"
classes = { email = "never", person = "ask" }
override = true
tokens = 16
surprise = 1.5
valuable_words = ["ernsthaft"]
valuable_length = 100
"""


def test_complete_policy_is_parsed() -> None:
    policy = parse_policy(COMPLETE.encode(), "policy.toml")
    assert policy.words == ("Project Heron",)
    assert policy.folders == ("~/clients",)
    assert policy.least_certainty == 0.3
    assert policy.classes["person"] is Sensitivity.NEVER
    assert policy.classes["email"] is Sensitivity.REDACT
    assert policy.routes["auto"].prefer == "local"
    work = policy.routes["work"]
    assert (work.local, work.cloud, work.redact.value) == ("qwen3:4b", "openai/gpt-5", "always")
    assert dict(work.classes) == {"email": Sensitivity.NEVER, "person": Sensitivity.ASK}
    assert (work.tokens, work.surprise, work.valuable_words) == (16, 1.5, ("ernsthaft",))


def test_missing_file_is_the_default_policy(tmp_path: Path) -> None:
    assert load_policy(tmp_path / "policy.toml") == Policy()
    (tmp_path / "policy.toml").touch()
    assert load_policy(tmp_path / "policy.toml") == Policy()


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ('wordz = ["ab"]', "line 1 (wordz): 'wordz' is not", "Did you mean 'words'?"),
        ("\n[routes.x]\n\nlokal = 1", "line 4 (routes.x.lokal)", "Did you mean 'local'?"),
        ('words = "ab"', "expected a list, got a text", "schema"),
        ('[classes]\nemial = "never"', "line 2 (classes.emial)", "Did you mean 'email'?"),
        ('[classes]\ncard = "no"\n', "line 2 (classes.card): invalid enum value 'no'", "schema"),
        ("[classes]\ncard = 1979-05-27", "line 2 (classes.card)", "schema"),
        ('[classes]\nuninspectable = "allow"', "cannot be allowed", "Remove the line"),
        (
            '[routes.w]\nclasses = {card = "ask"}',
            "line 2 (routes.w.classes.card)",
            "override = true",
        ),
        ('[routes.w.classes]\nemail = "ask"', "less strict than the policy's", "override = true"),
        ('[routes.w]\ncloud = "gpt"', "not a provider with a model", "openai/gpt-5"),
        ("[routes.W]", "cannot be the name of a route", "lower-case"),
        ('[routes.w]\nescalate = ["never"]', "line 2 (routes.w.escalate.0)", "schema"),
        ("[routes]\nw = 3", "expected a table", "schema"),
        ("[[classes]]\na = 1", "expected a table, got a list", "schema"),
        ("least_certainty = nan", "least_certainty", "schema"),
        ("x = ", "is not a TOML file", "ingle route new"),
        ("a" + "[" * 100_000, "is not a TOML file", "ingle route new"),
    ],
)
def test_error_names_its_line_and_key(content: str, message: str, hint: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(content.encode(), "policy.toml")
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_unreadable_policy_files_are_refused(tmp_path: Path) -> None:
    for content in (b"\xff\xfe", b"words = ['a\x00b']", b"#" * (LARGEST + 1)):
        (tmp_path / "policy.toml").write_bytes(content)
        with pytest.raises(PolicyError):
            load_policy(tmp_path / "policy.toml")
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path)


def test_json_schema_agrees_with_the_parser() -> None:
    import tomllib

    schema: Any = Draft202012Validator(policy_schema())
    assert schema.is_valid(tomllib.loads(COMPLETE))
    for wrong in (
        'wordz = ["ab"]',
        '[classes]\nemial = "never"',
        '[classes]\nemail = "no"',
        "[routes.x]\ntokens = 0",
        "[routes.x]\nlokal = 1",
    ):
        assert not schema.is_valid(tomllib.loads(wrong)), wrong
