"""Values that stand in documentation as examples, and words in the place of a password."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network

from ..text_analysis.data_files import read_sections
from .finding import FindingKind, SensitiveFinding

_LISTS = read_sections("public_examples.txt")
_VALUES = frozenset(value.upper() for value in _LISTS["values"])
_NETWORKS = tuple(map(ip_network, _LISTS["networks"]))
_PLACEHOLDERS = frozenset(", ".join(_LISTS["placeholders"]).split(", "))
_USERS = frozenset(", ".join(_LISTS["users"]).split(", "))
_HOME = re.compile(r"[/\\](?:home|Users)[/\\]+([^/\\:]+)")
_NO_VALUE = re.compile(
    r"(?:your|example|varchar|\$[a-z_{(]|[{<]|%\w*%|x{3})|(?:-+|_+|=+|#+|\*+|0{6,}|\.{3,}|…+)\Z",
    re.IGNORECASE,
)
# `my-secret-pw`, `theadministratorpassword`.
_SAYS_SO = re.compile(
    r"[a-z]+(?:password|passwd|secret)|(?:[a-z]+[-_])+(?:pass(?:word|wd)?|pwd?|secret)"
)
# Names that cannot be registered (RFC 2606, RFC 6761).
_DOMAIN = re.compile(
    r"[@.](?:example\.(?:com|net|org|edu)|example|test|invalid|localhost)\Z|\Aexample\.",
    re.IGNORECASE,
)
_NUMBERS = frozenset(
    {FindingKind.CARD, FindingKind.NATIONAL_ID, FindingKind.TAX_ID, FindingKind.WALLET}
    | {FindingKind.API_KEY, FindingKind.TOKEN, FindingKind.JWT, FindingKind.HEALTH_ID}
    | {FindingKind.PHONE, FindingKind.BANK_ACCOUNT}
)
# Authors sign what they publish with their names and addresses.
_ATTRIBUTION = re.compile(
    r"\(c\)|©|copyright|@?\bauthors?\b|\bmaintain(?:er|ed)|\bwritten by\b|-by:|\bthanks\b",
    re.IGNORECASE,
)
_SIGNED = frozenset({FindingKind.EMAIL, FindingKind.PERSON, FindingKind.ORGANISATION})
_HOSTS = frozenset({FindingKind.EMAIL, FindingKind.INTERNAL_HOST})


def is_public_example(finding: SensitiveFinding) -> bool:
    """Whether a finding is a published example: a test card, a sample key, a reserved name."""
    if finding.kind in _NUMBERS:
        return "".join(filter(str.isalnum, finding.value)).upper() in _VALUES
    if finding.kind is FindingKind.IP_ADDRESS:
        address = ip_address(finding.value)
        return any(address in network for network in _NETWORKS)
    if finding.kind is FindingKind.FILE_PATH:
        home = _HOME.search(finding.value)
        return home is not None and home[1].strip("<>{}$%").lower() in _USERS
    return finding.kind in _HOSTS and _DOMAIN.search(finding.value) is not None


def is_attribution(text: str, finding: SensitiveFinding) -> bool:
    """Whether a name or an e-mail address is that of an author, by the words before it."""
    if finding.kind not in _SIGNED:
        return False
    line = text.rfind("\n", 0, finding.start) + 1
    return _ATTRIBUTION.search(text, line, finding.start) is not None


def is_placeholder(value: str) -> bool:
    """Whether a word in the place of a password is none."""
    word = value.lower().rstrip(".!?):")
    return (
        word in _PLACEHOLDERS
        or _NO_VALUE.match(word) is not None
        or _SAYS_SO.fullmatch(word) is not None
    )


def is_example_login(login: str) -> bool:
    """Whether `USER:PASSWORD` is a published example."""
    return login.lower() in _PLACEHOLDERS
