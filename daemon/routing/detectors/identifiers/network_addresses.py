"""Detects machine addresses: IP, MAC, internal hosts, and hosts rented from a provider."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Network, IPv6Address

from ...text_analysis.data_files import word_lists
from ...text_analysis.text_index import Span, lowered
from ..context_words import ContextWords
from ..finding import FindingKind, SensitiveFinding

_IPV4 = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w]|\.\d)")
_IPV6 = re.compile(
    r"[0-9A-Fa-f]{0,4}:(?:[0-9A-Fa-f]{0,4}:){1,7}(?:\d{1,3}(?:\.\d{1,3}){3}"
    r"|[0-9A-Fa-f]{0,4})(?![\w:])"
)
_WORD = re.compile(r"\S+")
_IN_MAC = re.compile(r"[:-][0-9A-Fa-f]{2}[:-]")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4}(?![\w:-])")
_DOTTED_MAC = re.compile(r"[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}(?![\w.])")
_MAC_WORDS = re.compile(
    "mac|ether|bluetooth|wlan|wifi|hwaddr|bssid|lladdr|interface|dhcp| lease|arp |vlan"
)
_HOST = re.compile(
    r"[A-Za-z0-9][\w-]{0,62}(?:\.[A-Za-z0-9][\w-]{0,62}){0,6}?\.(?:(local|internal|private|home"
    r"|intra)|"
    r"corp|intranet|lan|localdomain|home\.arpa)(?![\w(-]|\.\w)(?::\d{1,5})?"
)
_OWN_HOST = re.compile(
    r"(?:intranet|internal|corp|vpn|sso|ldap|staging|bastion"
    r"|jumphost)(?:\.[a-z0-9][a-z0-9-]{0,40}){1,4}\.[a-z]{2,12}(?![\w-])"
    r"|[a-z0-9][\w-]{0,40}\.(?:corp|intranet|internal"
    r"|int)\.[a-z0-9][a-z0-9-]{1,40}\.[a-z]{2,12}(?![\w-])",
    re.IGNORECASE,
)
# Host names that providers assign to customers: the name identifies the customer.
_RENTED = word_lists()["rented hosts"]
_RENTED_ENDS = (".com", ".net", ".io", ".app", ".co", ".space", ".tech")
_RENTED_HOST = re.compile(
    r"(?<![\w.-])(?:[a-z0-9_][a-z0-9_-]{0,62}\.){0,5}?([a-z0-9_][a-z0-9-]{0,62})"
    + "(?:" + "|".join(re.escape(one) for one in _RENTED) + r")(?![\w-])",
    re.IGNORECASE,
)  # fmt: skip
_NOBODYS = frozenset(
    {"www", "docs", "support", "help", "blog", "community", "example", "your", "yourdomain"}
)
# Schemes of networks: others name files, buckets and pages of browsers.
_ONE_LABEL = re.compile(
    r"(?<![\w+.-])(?:https?|wss?|s?ftps?|ssh|git|smb|nfs|ldaps?|rdp|vnc|telnet|tcp|udp|grpc|amqps?|mqtts?|redis"
    r"|kafka|mysql|mariadb|postgres(?:ql)?|mongodb)://"
    r"([A-Za-z][A-Za-z0-9-]{1,40})(?::\d{2,5})?(?:/|\s|$|[\"'`)])"
)
_SHARE = re.compile(r"\\\\([A-Za-z0-9][\w.-]{1,60})\\[\w$.-]{1,60}")
_CODE_NAMES = frozenset({"self", "this", "cls", "super", "threading", "asyncio", "os", "module"})
_ESCAPE = re.compile(r"u[0-9a-f]{4}|x[0-9a-f]{2}", re.IGNORECASE)
_NO_HOSTS = ("localhost", "example", "host", "hostname", "server", "domain", "url", "proxy")
_PREFIX = re.compile(r"/(\d{1,2})(?!\d)")
_IN_ADDRESS = re.compile(r"(?://|@|\b(?i:ip|address|addr|inet|gateway)[^\w\n]{1,6}(?:is |= )?)\Z")
_PRODUCT = re.compile(r"(?<![\w/.])[A-Z][A-Za-z]{2,20}/\Z")  # `Chrome/120.0.6099.1` is a version
_VERSIONS = ContextWords("versions", before=12, after=0)
_HOST_BITS, _LARGE_PART, _PRIVATE = 32, 100, 10
_HOST_WORDS = ContextWords("hosts", before=30, after=20)


def find_network_addresses(text: str) -> Iterator[SensitiveFinding]:
    """Yield addresses other than loopback, and names of internal hosts."""
    if text.count(".") >= 3:
        yield from _ipv4(text)
    if text.count(":") >= 2:
        yield from _ipv6(text)
    yield from _macs(text)
    yield from _hosts(text)


def _ipv4(text: str) -> Iterator[SensitiveFinding]:
    for match in _IPV4.finditer(text):
        found, start = match[0], match.start()
        before = text[max(0, start - 2) : start]
        if before[-1:].isalnum() or before[-1:] in ("_", ".", "-"):
            continue
        if before[-1:] == "/" and _PRODUCT.search(text, max(0, start - 24), start):
            continue
        if _is_network(text, match) or (_is_like_a_version(found) and not _is_said(text, match)):
            continue
        valid = all(int(part) < 256 and str(int(part)) == part for part in found.split("."))
        if valid and not _VERSIONS.before(text, start):
            yield SensitiveFinding(FindingKind.IP_ADDRESS, start, match.end(), found)


def _is_network(text: str, match: re.Match[str]) -> bool:
    """Whether it is a private or shared network as a whole, such as `100.64.0.0/10`."""
    prefix = _PREFIX.match(text, match.end())
    if prefix is None:
        return False
    try:
        network = IPv4Network(f"{match[0]}/{prefix[1]}")
    except ValueError:  # bits behind the prefix, or no address
        return False
    return not network.is_global and int(prefix[1]) < _HOST_BITS


def _is_like_a_version(found: str) -> bool:
    """Whether it may be a version, a section or an object identifier: four small numbers."""
    parts = [int(part) for part in found.split(".")]
    return parts[0] < _PRIVATE and max(parts) < _LARGE_PART


def _is_said(text: str, match: re.Match[str]) -> bool:
    """Whether it stands in an address, beside a port, or near a word for a machine."""
    before = text[max(0, match.start() - 24) : match.start()]
    if _IN_ADDRESS.search(before) or text[match.end() : match.end() + 1] == ":":
        return True
    return _HOST_WORDS.before(text, match.start())


def _ipv6(text: str) -> Iterator[SensitiveFinding]:
    for match in _IPV6.finditer(text):
        found, start = match[0], match.start()
        # Times and ratios have colons, too; an address has a letter or a gap, and is longer.
        if len(found) < 7 or text[max(0, start - 1) : start].isalnum():
            continue
        if "::" not in found and not any(map(str.isalpha, found)):
            continue
        try:
            address = IPv6Address(found)
        except AddressValueError:
            continue
        yield SensitiveFinding(FindingKind.IP_ADDRESS, start, match.end(), str(address))


def _macs(text: str) -> Iterator[SensitiveFinding]:
    dotted = _DOTTED_MAC.finditer(text) if _MAC_WORDS.search(lowered(text)) else ()
    pairs = _MAC.finditer(text) if _IN_MAC.search(text) else ()
    for match in itertools.chain(pairs, dotted):
        before = text[max(0, match.start() - 1) : match.start()]
        plain = "".join(filter(str.isalnum, match[0])).lower()
        if before.isalnum() or before in (":", "-", ".") or len(set(plain)) == 1:
            continue
        yield SensitiveFinding(FindingKind.MAC_ADDRESS, *match.span(), plain)


def _hosts(text: str) -> Iterator[SensitiveFinding]:
    words = _words_with_endings(text) if any(map(text.__contains__, _ENDINGS)) else ()
    for begin, stop in words:
        for match in _HOST.finditer(text, begin, stop):
            if _is_host(text, match):
                yield SensitiveFinding(FindingKind.INTERNAL_HOST, *match.span(), match[0].lower())
        for match in _OWN_HOST.finditer(text, begin, stop):
            before = text[max(0, match.start() - 1) : match.start()]
            module = text.endswith(("from ", "import "), 0, match.start())
            if not (before.isalnum() or before in ("_", ".") or module):
                yield SensitiveFinding(FindingKind.INTERNAL_HOST, *match.span(), match[0].lower())
    if any(end in text for end in _RENTED_ENDS) and any(one in text for one in _RENTED):
        for match in _RENTED_HOST.finditer(text):
            if match[1].lower().removesuffix("-") not in _NOBODYS:
                yield SensitiveFinding(FindingKind.INTERNAL_HOST, *match.span(), match[0].lower())
    if "://" in text:
        for match in _ONE_LABEL.finditer(text):
            if match[1].lower() not in _NO_HOSTS:
                yield SensitiveFinding(FindingKind.INTERNAL_HOST, *match.span(1), match[1].lower())
    if "\\\\" in text:
        for match in _SHARE.finditer(text):
            if match[1].lower() not in _NO_HOSTS and not _ESCAPE.match(match[1]):
                yield SensitiveFinding(FindingKind.INTERNAL_HOST, *match.span(1), match[1].lower())


def _is_host(text: str, match: re.Match[str]) -> bool:
    before = text[max(0, match.start() - 1) : match.start()]
    if before.isalnum() or before in ("_", ".", "$", "-"):
        return False
    if match[0].lower().partition(".")[0] in _CODE_NAMES:
        return False
    if match[1] is None:
        return True
    # `threading.local` is code, and `printer-2.local` a machine.
    name = match[0].rpartition("." + match[1])[0]
    if before in ("/", "@") or any(c.isdigit() or c == "-" for c in name):
        return True
    return _HOST_WORDS.near(text, match.start(), match.end())


_ENDINGS = (
    ".local", ".internal", ".private", ".home", ".intra", ".corp", ".lan", "intranet", "internal.",
    "corp.", "vpn.", "sso.", "ldap.", "staging.", "bastion.", "jumphost.", ".int.",
)  # fmt: skip


def _words_with_endings(text: str) -> Iterator[Span]:
    """Yield the space-separated words that contain the name of a private network, in any case."""
    for word in _WORD.finditer(text):
        lower = word[0].lower()
        if any(map(lower.__contains__, _ENDINGS)):
            yield word.span()
