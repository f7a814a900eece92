"""Words that the owner teaches while using ingle, written into `policy.toml`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...config_editing.document_path import CannotEdit
from ...config_editing.toml_document import TOMLDocument
from ...stores.durable_file import write_durably
from .policy import Policy
from .policy_file import PolicyError, load_policy, parse_policy, policy_template


def teach(path: Path, *, words: Sequence[str] = (), public: Sequence[str] = ()) -> Policy:
    """Add the owner's words and public words to a policy, and return it; the rest is kept.

    A word can be in one of the two lists only: the latest counts. Raises `PolicyError` if the file
    is invalid, or written in a way that cannot be edited, and the errors of `write_durably`.
    """
    policy = load_policy(path)
    wanted = {
        "words": _joined(policy.words, words, public),
        "public_words": _joined(policy.public_words, public, words),
    }
    text = path.read_text("utf-8") if path.exists() else policy_template()
    try:
        for name, value in wanted.items():
            if getattr(policy, name) != value:
                text = TOMLDocument(text).changed((name,), list(value))
        changed = parse_policy(text.encode(), str(path))
    except (CannotEdit, PolicyError):
        changed = policy
    if (changed.words, changed.public_words) != tuple(wanted.values()):
        raise PolicyError(
            f"{path} is written in a way that ingle does not change.",
            "Add the word there: to `words` if it must stay here, to `public_words` if not.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, text.encode())
    return changed


def _joined(known: Sequence[str], new: Sequence[str], not_these: Sequence[str]) -> tuple[str, ...]:
    left_out = {word.casefold() for word in not_these}
    return tuple(dict.fromkeys(w for w in (*known, *new) if w.casefold() not in left_out))
