"""Words that the owner teaches, in `policy.toml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingle.daemon.routing.policy.policy_file import PolicyError, load_policy, policy_template
from ingle.daemon.routing.policy.taught_words import teach


def test_taught_words_are_added_to_a_new_policy(tmp_path: Path) -> None:
    path = tmp_path / "config" / "policy.toml"
    teach(path, words=["Zephyr"], public=["Acme Ltd"])
    policy = load_policy(path)
    assert (policy.words, policy.public_words) == (("Zephyr",), ("Acme Ltd",))
    assert len(path.read_text().splitlines()) == len(policy_template().splitlines())


def test_the_latest_list_counts_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('words = ["Heron", "Zephyr"]  # mine\n# kept\n[classes]\nperson = "never"\n')
    policy = teach(path, public=["zephyr", 'a "quoted" one'])
    assert (policy.words, policy.public_words) == (("Heron",), ("zephyr", 'a "quoted" one'))
    assert load_policy(path) == policy
    text = path.read_text()
    assert text.startswith('words = ["Heron"]  # mine\n')
    assert "# kept" in text
    assert teach(path, words=["ZEPHYR"]).public_words == ('a "quoted" one',)


@pytest.mark.parametrize("text", ['words = [\n  "Heron",\n]\n', "words = 3\n"])
def test_policy_that_cannot_be_edited_is_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(PolicyError):
        teach(path, words=["Zephyr"])
    assert path.read_text() == text
