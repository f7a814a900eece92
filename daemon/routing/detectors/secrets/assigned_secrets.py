"""Detects secrets without a fixed shape, after a name for a password, a key, a header or a
cookie.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from math import log2

from ...text_analysis.data_files import KeywordPatterns
from ...text_analysis.generated_strings import looks_generated
from ...text_analysis.text_index import lowered
from ..context_words import Phrases
from ..finding import FindingKind, SensitiveFinding
from ..public_examples import is_example_login, is_placeholder

_PASSWORDS, _KEYS = Phrases("passwords"), Phrases("keys")
# Words with other meanings, too, so that an assignment sign must follow.
_SHORT_PASSWORDS = Phrases("short passwords", whole=True)
_COMMANDS = KeywordPatterns(
    "command_passwords.txt", r"['\"]?([^\s'\"$<>{}][^\s'\"<>{}]{2,127})", re.IGNORECASE
)
_ASSIGNED = re.compile(
    r"(?P<rest>[\w.-]{0,24})[\"'`\]*]{0,3}[^\S\n]{0,4}"
    r"(?P<sign>>(?=[^\s<]{3,200}</[\w.:-]{0,40}(?i:pass|pwd|secret|token|key))"
    r"|:=|=>|==?|：|:|-{1,2}>)"
    r"[^\S\n]{0,4}(?:\n[^\S\n]{0,8})?"
    r"(?:[brfu]?(?P<quote>[\"'`“„«])(?P<quoted>[^\"'`“”„«»\n]{3,200})[\"'`“”»]"
    r"|\\\"(?P<escaped>[^\"\\\n]{3,200})\\\"|[*_]{0,2}(?P<bare>[^\s\"'`,;<>{}|\\，。；]{3,200}))"
)
# `password_maps`, `passwd-file`, `secretName`: what the name ends in says that the value is none.
_OF_ANOTHER_THING = re.compile(
    r"(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?i:files?|file_?names?|paths?|dir|maps?|schemes?|types?|names?"
    r"|policy|policies|length|len|formats?|alg(?:o|orithm)?s?|env|encryption|expir(?:y|es|ation)"
    r"|age|prompt|fields?|columns?|attr(?:ibute)?s?|filter|query|urls?|uri|commands?|cmd|program"
    r"|helper|backend|plugin|driver|method|mechanisms?|verify|required|enabled|source|store"
    r"|hashers?|validators?|modes?|checks?|lookup|endpoint)\Z"
)
# `hash:/etc/postfix/sasl`, `/run/secrets/db`, `~/.pgpass`, `./keys/a.pem`.
_PATH = re.compile(
    r"(?:[a-z]{2,12}:)?(?:(?:~|\.{1,2}|\$\{?\w+\}?)?(?:/[a-z._][a-z0-9._-]*){2,}"
    r"|(?:~|\.{1,2})/[a-z._][a-z0-9._-]*)/?[%*]?\Z"
)
_OF_A_KEY = re.compile(
    r"[\w’'-]{0,16},?(?:[^\S\n]{1,2}[^\W\d_][\w’'-]{0,11}){1,2}[^\S\n]{1,3}(?P<value>[^\s\"'`<>{}|\\，。；]{16,400})"
)
_SHORT = re.compile(
    r"[\"'\]]{0,2}[^\S\n]{0,3}(?P<sign>=>|:=|[:=])[^\S\n]{0,3}[\"']?(?P<value>[^\s\"'`<>{}|\\,;]{6,128})"
)
# `readPassword`, `token_ids_0`, `SecretsOpt`, and prompts such as `npm password: `
_VARIABLE = re.compile(
    r"(?=\w*(?:[a-z][A-Z]|_))[A-Za-z_]*(?i:pass(?:word|wd)|pwd|secret|token)[A-Za-z_]*(?:_\d)?"
    r"|[^\d\n]*(?i:password|passphrase)\W{2,}"
)
_CLASS = re.compile(r"(?:[A-Z][a-z]{2,}){2,}(?:[A-Z]{2,}|[A-Z][a-z]{2,})*\d{0,4}\Z")
# A date such as 13.05.87 is a password.
_VERSION = re.compile(
    r"(?!(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.\d\d\Z)[~^=v]{0,2}\d{1,3}(?:\.\d{1,3}){1,3}"
)
_FORMULA = re.compile(r"[\w.]+(?:[*+/]{1,2}[\w.]+)+\Z|\w*_\w*\Z")
_PAIR = re.compile(
    r"[\w.-]{0,24}[\"']?[,\s]\s{0,16}[\"']?value[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?P<value>[^\s\"'<>{}]{4,200})",
    re.IGNORECASE,
)
_QUERY = re.compile(
    r"([A-Za-z][\w+.:-]{1,30})://[^\s\"'<>]{1,200}?[?&;](?:password|passwd|pwd)=([^\s\"'<>&;]{3,128})"
    r"[^\s\"'<>]{0,200}",
    re.IGNORECASE,
)
_ENDS = re.compile(r"[.!]?[^\S\n]*(?:$|\n|,|;)")
_SENTENCE = re.compile(r"\D+\s\D+[a-z][.!]\Z")
_CUT = re.compile(r"\w\.{3}|\w…")
_ASSIGNMENT = re.compile(r"[^\S\n]?=[^=]")
_NO_FLAG = re.compile(rf"[a-z]{{1,12}}=[^=]|{_PATH.pattern}")  # `--secret id=key,src=FILE`
_FLAG = re.compile(r"[^\S\n]{1,2}(?![A-Z_]+\b)['\"]?([^\s'\"-][^\s'\"]{3,200})")
_CODE = re.compile(
    r"[A-Za-z_][\w.:]*[(\[]|\${1,2}[A-Za-z_{(]|%\w*%|%[sdvq]\Z|&[A-Za-z_]+(?:\.\w+)?\Z"
    r"|\((?:new\b|[^)]*\Z)|https?://[^@?]*\Z|uid:|:{2}|\d{1,5}:\d{1,5}(?:\W|\Z)|0x[0-9A-Fa-f]{1,8}\Z|\[:|@?\w+\)\.|\d+\.[a-z]+(?:\.[a-z]+)?\Z|\{|<|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$|@[\w.]+$|\*+$|\.{3}|…"
    r"|(?:os|process|env|self|this|config|settings|request|args|options|ctx|user)[.\[_]"
)
_AUTHORIZATION = re.compile(
    r"authorization[\"'\]]{0,2}\s{0,3}[:=,]\s{0,3}[\"']?(?:(?:bearer|basic|token|digest|apikey|"
    r"negotiate|aws4-hmac-sha256|key)[\s:]{1,3})?([^\s\"'{}<>$]{8,4000})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"[Bb]earer[ :]{1,2}([\w.~+/-]{16,4000}+=*)")
_COOKIE = re.compile(
    r"\b(?:set-)?cookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?([^\s=;,\"']{1,80}=[^\n\"']{6,4000})",
    re.IGNORECASE,
)
_SESSION = re.compile(
    r"(?:PHPSESSID|JSESSIONID|ASP\.NET_SessionId|connect\.sid|session_?id|sessionid|_session|"
    r"csrftoken|auth_token|remember_token|sid)(?![\"']?\s*[:=]\s*[\"']?\w+/)[\"']?\s{0,2}[=:]\s{0,2}[\"']?([\w%.:+/-]{16,400})",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]{1,30}\Z")
_LOGIN = re.compile(
    r"://([^\s:/@\"'<>{}]{0,64}:([^\s/@\"'<>{}]{1,128}))@[^\s/\"'<>@]{1,200}[^\s\"'<>]{0,300}"
)
_WEB = ("http", "https", "ws", "wss", "git", "ssh")
_FIELD = re.compile(
    r"\b(?:password|pwd|accountkey|sharedaccesskey"
    r"|sharedsecretvalue)\s{0,2}=\s{0,2}([^;\s\"']{3,200})",
    re.IGNORECASE,
)
_SERVER = re.compile(
    r"\b(?:server|data source|host|hostname|addr|endpoint|defaultendpointsprotocol|driver|dsn|"
    r"accountname|user id|uid|dbname|database|initial catalog)\s{0,2}=",
    re.IGNORECASE,
)
_HEADERS = (
    (("authorization",), _AUTHORIZATION, FindingKind.TOKEN),
    (("bearer",), _BEARER, FindingKind.TOKEN),
    (("cookie",), _COOKIE, FindingKind.COOKIE),
    (("sid", "session", "csrftoken", "auth_token", "remember_token"), _SESSION, FindingKind.COOKIE),
)
"""Words of which every match has one, and the shape, whose group is the secret."""


def find_assigned_secrets(text: str) -> Iterator[SensitiveFinding]:
    """Yield `password = …`, headers, cookies, and logins in addresses."""
    lower = lowered(text)
    yield from _logins(text, lower)
    if "password" in lower or "pwd" in lower or "key" in lower or "value" in lower:
        yield from _fields(text)
    yield from _headers(text, lower)
    pairs = "value" in lower
    for words, kind in ((_PASSWORDS, FindingKind.PASSWORD), (_KEYS, FindingKind.API_KEY)):
        for start, end in words.spans(text):
            if text.startswith("$PWD", start - 1):
                continue  # the current folder
            yield from _assigned(text, end, kind)
            if kind is FindingKind.API_KEY:
                yield from _made_up(text, _OF_A_KEY.match(text, end), kind)
            if pairs and (pair := _PAIR.match(text, end)):
                yield from _made_up(text, pair, kind)
    for end in _SHORT_PASSWORDS.ends(text):
        match = _SHORT.match(text, end)
        if match and not _is_result(text, end, match):
            yield from _made_up(text, match, FindingKind.PASSWORD)


def _assigned(text: str, end: int, kind: FindingKind) -> Iterator[SensitiveFinding]:
    match = _ASSIGNED.match(text, end)
    if match is None:
        word = max(text.rfind(" ", 0, end), text.rfind("\n", 0, end)) + 1
        flag = _FLAG.match(text, end) if text.startswith("--", word) else None
        if flag is not None and _is_of_a_flag(flag[1], kind):
            yield SensitiveFinding(kind, *flag.span(1), flag[1])
        return
    group = next(name for name in ("quoted", "escaped", "bare") if match[name] is not None)
    value, start = match[group], match.start(group)
    if group == "bare":
        value = _trimmed(value)
    if match["sign"] == "=" and text[start - 1] == " " and value.isidentifier() and value.islower():
        return  # `self.password = password` is code
    if match["quote"] == "`" and " " in value:
        return
    if group == "bare" and _ASSIGNMENT.match(text, start + len(value)):
        return  # a statement of the next line
    if _is_label(text, end, match) and not any(map(str.isdigit, value)):
        return
    if _OF_ANOTHER_THING.search(match["rest"]):
        return
    ends = group != "bare" or match["sign"] in "==>" or _ENDS.match(text, start + len(value))
    if _is_secret(value, kind, not ends, group != "bare"):
        yield SensitiveFinding(kind, start, start + len(value), value)


def _is_label(text: str, end: int, match: re.Match[str]) -> bool:
    """Whether the name is in a text in quotes, as translations have: `"New password": "…"`."""
    quote = text[match.end("rest") : match.end("rest") + 1]
    begin = text.rfind(quote, max(0, end - 60), end) if quote in ("'", '"') else -1
    return begin >= 0 and " " in text[begin:end]


def _is_of_a_flag(value: str, kind: FindingKind) -> bool:
    """Whether the word behind a flag such as `--password` can be its value."""
    if _CODE.match(value) or _NO_FLAG.match(value) or is_placeholder(value):
        return False
    return kind is FindingKind.PASSWORD or any(map(str.isdigit, value)) or looks_generated(value)


def _made_up(
    text: str, match: re.Match[str] | None, kind: FindingKind
) -> Iterator[SensitiveFinding]:
    """Yield values at the position of a secret that look generated."""
    if match is None:
        return
    value = _trimmed(match["value"])
    if is_placeholder(value) or _CODE.match(value) or not looks_generated(value):
        return
    if kind is FindingKind.API_KEY and (not _is_random(value) or set(value) & set("()[]")):
        return
    start = match.start("value")
    yield SensitiveFinding(kind, start, start + len(value), value)


def _headers(text: str, lower: str) -> Iterator[SensitiveFinding]:
    for words, pattern, kind in _HEADERS:
        if not any(word in lower for word in words):
            continue
        for match in pattern.finditer(text):
            login = _decoded_login(match[1])
            if is_placeholder(login.rpartition(":")[2]) or _CODE.match(match[1]):
                continue
            if any(c.isdigit() for c in match[1]):
                yield SensitiveFinding(kind, *match.span(1), match[1])


def _decoded_login(code: str) -> str:
    """Return the `USER:PASSWORD` of basic authentication; "" for another code."""
    try:
        login = base64.b64decode(code, validate=True).decode()
    except ValueError:
        return ""
    return login if ":" in login else ""


def _is_login(login: str, password: str) -> bool:
    """Whether `USER:PASSWORD` is one, and no example, variable or placeholder."""
    example = is_example_login(login) or is_placeholder(password)
    return len(password) > 2 and not example and not _CODE.match(password)


def _logins(text: str, lower: str) -> Iterator[SensitiveFinding]:
    place = text.find("://") if "@" in text else -1
    while place >= 0:
        match = _LOGIN.match(text, place)
        scheme = _SCHEME.search(text[max(0, place - 32) : place])
        if match is not None and scheme is not None and _is_login(match[1], match[2]):
            start, end = place - len(scheme[0]), match.end()
            yield SensitiveFinding(_kind_of_login(scheme[0]), start, end, text[start:end])
        place = text.find("://", place + 3)
    if "://" in text and ("password=" in lower or "passwd=" in lower or "pwd=" in lower):
        for match in _QUERY.finditer(text):
            if not (_CODE.match(match[2]) or is_placeholder(match[2])):
                yield SensitiveFinding(_kind_of_login(match[1]), *match.span(), match[0])
    for match in _COMMANDS.finditer(text):
        if not _CODE.match(match[1]) and not is_placeholder(match[1]):
            yield SensitiveFinding(FindingKind.PASSWORD, *match.span(1), match[1])


def _kind_of_login(scheme: str) -> FindingKind:
    return FindingKind.PASSWORD if scheme.lower() in _WEB else FindingKind.CONNECTION_STRING


def _fields(text: str) -> Iterator[SensitiveFinding]:
    """Yield secrets of `Server=…;Password=…`, from the first field of the line on."""
    if ";" not in text and "dbname" not in text:
        return
    for match in _FIELD.finditer(text):
        line = max(text.rfind("\n", 0, match.start()) + 1, match.start() - 400)
        first = _SERVER.search(text, line, match.start())
        if first is not None and not _CODE.match(match[1]):
            start = first.start()
            yield SensitiveFinding(
                FindingKind.CONNECTION_STRING, start, match.end(), text[start : match.end()]
            )


def _is_result(text: str, end: int, match: re.Match[str]) -> bool:
    """Whether it is a test result or a computation: `PASS: test_login`, `pw = 2*p+q`."""
    shouted = text[max(0, end - 5) : end].lstrip("\"'").rpartition(" ")[2] == "PASS"
    return (shouted and match["sign"] == ":") or _FORMULA.match(match["value"]) is not None


def _is_secret(value: str, kind: FindingKind, goes_on: bool, quoted: bool) -> bool:
    """Whether a value given as a secret can be one, and is not a word about it."""
    if len(value) < 4 or is_placeholder(value) or _CODE.match(value) or _PATH.match(value):
        return False
    if _SENTENCE.match(value) or _CUT.search(value):
        return False
    digits = any(map(str.isdigit, value))
    if _VARIABLE.fullmatch(value) or _VERSION.fullmatch(value):
        return False
    if kind is FindingKind.API_KEY:
        # Tokens are counted and secrets are talked about, so plain numbers and words do not count.
        letters = any(map(str.isalpha, value)) and value[0] != "/" and not set(value) & set("()[]")
        letters = letters and " " not in value and not _CLASS.match(value)
        return len(value) >= 8 and letters and (digits or looks_generated(value))
    # `password: the one you chose` is about one, while `password: chosen` may be one.
    return digits or not (goes_on or " " in value) or quoted or _mixed(value)


def _is_random(value: str) -> bool:
    """Whether 20 or more characters have at least 3.5 bits each: more than names of people or
    programs.
    """
    if len(value) < 20 or not any(map(str.isdigit, value)):
        return False
    shares = [value.count(letter) / len(value) for letter in set(value)]
    return -sum(share * log2(share) for share in shares) >= 3.5


def _mixed(value: str) -> bool:
    return any(not letter.isalnum() and letter not in "-'’.,!?)" for letter in value)


def _trimmed(value: str) -> str:
    """Return the value without the sentence's final punctuation."""
    trimmed = value.rstrip(".,:)]*_?")
    return value if len(trimmed) < 3 else trimmed
