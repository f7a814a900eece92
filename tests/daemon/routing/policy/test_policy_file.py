"""A policy file is read strictly, and its errors say what is wrong and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ingle.daemon.routing.detectors.finding import Sensitivity
from ingle.daemon.routing.policy.policy import Policy
from ingle.daemon.routing.policy.policy_file import LARGEST, PolicyError, load_policy, parse_policy
from ingle.daemon.routing.policy.policy_tables import policy_schema

WHOLE = """
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


def test_a_whole_policy_is_read() -> None:
    policy = parse_policy(WHOLE.encode(), "policy.toml")
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


def test_without_a_file_the_policy_is_the_safe_default(tmp_path: Path) -> None:
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
def test_a_mistake_is_told_with_its_place(content: str, message: str, hint: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(content.encode(), "policy.toml")
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_what_is_no_policy_at_all_is_refused(tmp_path: Path) -> None:
    for content in (b"\xff\xfe", b"words = ['a\x00b']", b"#" * (LARGEST + 1)):
        (tmp_path / "policy.toml").write_bytes(content)
        with pytest.raises(PolicyError):
            load_policy(tmp_path / "policy.toml")
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path)


def test_the_schema_says_the_same_as_the_reader() -> None:
    import tomllib

    schema: Any = Draft202012Validator(policy_schema())
    assert schema.is_valid(tomllib.loads(WHOLE))
    for wrong in (
        'wordz = ["ab"]',
        '[classes]\nemial = "never"',
        '[classes]\nemail = "no"',
        "[routes.x]\ntokens = 0",
        "[routes.x]\nlokal = 1",
    ):
        assert not schema.is_valid(tomllib.loads(wrong)), wrong
