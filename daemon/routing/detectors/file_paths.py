"""Paths that tell a person's name or a secret's place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..finding import Finding, Kind

_REST = r"(?:[/\\][^\s\"'`<>|;,:)*?]{0,300}+)?"
_HOMES = (
    ("/home/", re.compile(r"/home/(?![$<{*])[\w.-]{1,40}" + _REST)),
    ("/Users/", re.compile(r"/Users/(?![$<{*]|Shared\b)[\w.-]{1,40}" + _REST)),
    ("sers", re.compile(r"[A-Za-z]:[\\/]{1,2}[Uu]sers[\\/]{1,2}(?!Public\b|%|<)[\w. -]{1,40}?"
                        r"(?=[\\/\s\"'`]|$)"
                        r"(?:[\\/]{1,2}[^\s\"'`<>|;,:)*?]{0,300}+)?")),
    ("/mnt/", re.compile(r"/mnt/[a-z]/Users/(?!Public\b|[$<{*])[\w.-]{1,40}" + _REST)),  # WSL
    ("/root/", re.compile(r"/root/[^\s\"'`<>|;,:)*?]{1,300}+")),
    ("~/", re.compile(r"~/(?:Documents|Dokumente|Desktop|Downloads|Schreibtisch|Pictures|Bilder|"
                      r"Videos|Dropbox|OneDrive|Nextcloud|[Pp]rivate)/[^\s\"'`<>|;,:)*?]{1,300}+")),
    ("/media/", re.compile(r"/media/[\w.-]{1,40}/[^\s\"'`<>|;,:)*?]{1,300}+")),
)  # fmt: skip
# Each has a piece of every match in front, since a look for pieces is many times faster.
_SECRET_NAMES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (
        (".",),
        re.compile(
            r"\.(?:env(?:\.(?!example|sample|template|dist|test\b)\w{1,20})?(?![\w.(])"
            r"|ssh(?:[/\\][\w.-]{1,60})?(?![\w(])|aws[/\\]credentials|netrc\b|pgpass\b|pypirc\b"
            r"|git-credentials\b|gnupg\b|htpasswd\b|kube[/\\]config|docker[/\\]config\.json"
            r"|vault-token\b|my\.cnf\b|npmrc\b|gcloud\b)"
        ),
    ),
    (
        ("wireguard/", "gh/hosts.yml", "config/database.yml", "rclone.conf"),
        re.compile(
            r"wireguard/[\w.-]{1,40}\.conf\b|gh/hosts\.yml\b|config/database\.yml\b|rclone\.conf\b"
        ),
    ),
    (("id_",), re.compile(r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_\w{1,30})?(?!\.pub|\w)")),
    (("/etc/",), re.compile(r"/etc/(?:shadow|gshadow|sudoers)\b")),
    (
        ("credential", "secret"),
        re.compile(
            r"(?:client_)?(?:credentials|secrets?)\.(?:json|ya?ml|toml|ini|txt|csv|xml|env|enc)\b"
        ),
    ),
    (
        ("application_default", "service"),
        re.compile(r"application_default_credentials\.json|service[-_]account[\w-]{0,30}\.json"),
    ),
    (
        ("passw", "logins."),
        re.compile(
            r"(?:passwords?|passwoerter|passwörter|logins)\.(?:txt|csv|xlsx?|docx?|md|ods|kdbx)\b"
        ),
    ),
    (
        ("key3.db", "key4.db", "logins.json", "Login Data", "login.keychain"),
        re.compile(r"key[34]\.db\b|logins\.json\b|Login Data\b|login\.keychain(?:-db)?\b"),
    ),
    (
        ("wallet.dat", "cookies.sqlite", "tfstate"),
        re.compile(r"wallet\.dat\b|cookies\.sqlite\b|terraform\.tfstate\b"),
    ),
)
_SECRET_ENDINGS = re.compile(
    r"\.(?:(?P<key>key(?![\w(.]))|(?:pem|p12|pfx|jks|kdbx?|ppk|p8|keystore|tfvars|ovpn|asc\.key)\b)"
)
_STEM = re.compile(r"[\w-]{1,60}\Z")
_KEY_STEM = re.compile(r"^(?:server|private|privkey|client|ssl|tls|master$)")
_FRONT_OF = re.compile(r"(?:(?:~|\$HOME|[A-Za-z]:)?[/\\])?(?:[\w.@~-]{1,80}[/\\]{1,2}){1,12}\Z")
_LONGEST_FRONT = 200


class PathDetector:
    """Paths below somebody's home, and files that hold secrets."""

    name = "paths"

    def find(self, text: str) -> Iterator[Finding]:
        """Contract of `Detector`."""
        for piece, pattern in _HOMES:
            if piece in text:
                for match in pattern.finditer(text):
                    before = text[max(0, match.start() - 1) : match.start()]
                    if not before.isalnum():
                        end = match.start() + len(match[0].rstrip(".!]}"))
                        yield self._finding(Kind.FILE_PATH, match.start(), end, text)
        for pieces, pattern in _SECRET_NAMES:
            if not any(map(text.__contains__, pieces)):
                continue
            for match in pattern.finditer(text):
                if not text[max(0, match.start() - 1) : match.start()].isalnum():
                    yield self._in_folder(text, match.start(), match.end())
        for match in _SECRET_ENDINGS.finditer(text):
            stem = _STEM.search(text[max(0, match.start() - 60) : match.start()])
            if stem is None:
                continue
            start = match.start() - len(stem[0])
            # `event.key` is code, and `tls/host.key` a file.
            in_folder = text[max(0, start - 1) : start] in ("/", "\\")
            if match["key"] is None or in_folder or _KEY_STEM.match(stem[0]):
                yield self._in_folder(text, start, match.end())

    def _in_folder(self, text: str, start: int, end: int) -> Finding:
        """The file with the folders written before it."""
        front = _FRONT_OF.search(text[max(0, start - _LONGEST_FRONT) : start])
        return self._finding(Kind.SECRET_PATH, start - (len(front[0]) if front else 0), end, text)

    def _finding(self, kind: Kind, start: int, end: int, text: str) -> Finding:
        value = text[start:end]
        return Finding(kind=kind, start=start, end=end, value=value, detector=self.name)
