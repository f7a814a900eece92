"""Detects file paths that reveal a person's name or the location of a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text_analysis.text_index import keywords_in, register_keywords
from ..finding import FindingKind, SensitiveFinding

# A folder or file of a few words, if the path continues or a file extension ends it.
_SPACED = (
    r"(?:(?: [\w()&+-][\w.()&+-]{0,30}){1,4}(?:[/\\][^\s\"'`<>|;,:)*?]{1,300}+|(?<=\.\w\w\w)"
    r"(?![\w.])|(?<=\.\w\w\w\w)(?![\w.])|(?<=\.\w\w)(?![\w.]))){0,4}"
)
_REST = rf"(?:[/\\][^\s\"'`<>|;,:)*?]{{0,300}}+{_SPACED})?"
_HOMES = (
    ("/home/", re.compile(r"(?:/(?:export|usr|var|data|nfs|srv|mnt|net|vol\d?|afs|u))?/home\d?/"
                          r"(?![$<{*])[\w.-]{1,40}" + _REST)),
    ("/Benutzer/", re.compile(r"/Benutzer/(?![$<{*])[\w.-]{1,40}" + _REST)),
    ("/Volumes/", re.compile(r"/Volumes/(?![$<{*]|Macintosh HD\b)[\w.-]{1,40}/[^\s\"'`<>"
                             r"|;,:)*?]{1,300}+")),
    ("/Users/", re.compile(r"/Users/(?![$<{*]|Shared\b)[\w.-]{1,40}" + _REST)),
    ("sers", re.compile(r"[A-Za-z]:[\\/]{1,2}[Uu]sers[\\/]{1,2}(?!Public\b|%|<)[\w. -]{1,40}?"
                        r"(?=[\\/\s\"'`]|$)"
                        r"(?:[\\/]{1,2}[^\s\"'`<>|;,:)*?]{0,300}+" + _SPACED + r")?")),
    # A user's folder on a server.
    ("\\\\", re.compile(r"\\{2,4}[\w.-]{2,60}\\{1,2}(?:[Hh]omes?|[Uu]sers?|[Pp]rofiles?|[Pp]rivate|"
                         r"[Pp]ersonal|[Bb]enutzer|[Uu]tilisateurs|[Uu]suarios)\$?\\{1,2}[\w.-]{1,40}"
                         r"(?:\\{1,2}[^\s\"'`<>|;,:)*?]{0,300}+" + _SPACED + r")?")),
    ("/mnt/", re.compile(r"/mnt/[a-z]/Users/(?!Public\b|[$<{*])[\w.-]{1,40}" + _REST)),  # WSL
    ("/root/", re.compile(r"/root/[^\s\"'`<>|;,:)*?]{1,300}+")),
    ("~/", re.compile(r"~/(?:Documents|Dokumente|Desktop|Downloads|Schreibtisch|Pictures|Bilder|"
                      r"Videos|Dropbox|OneDrive|Nextcloud|[Pp]rivate)/[^\s\"'`<>|;,:)*?]{1,300}+")),
    ("/media/", re.compile(r"/media/[\w.-]{1,40}/[^\s\"'`<>|;,:)*?]{1,300}+")),
)  # fmt: skip
_HIDDEN_NAMES = (
    ".env", ".ssh", ".aws", ".netrc", ".pgpass", ".pypirc", ".git-credentials", ".gnupg",
    ".htpasswd",
    ".kube", ".docker", ".vault-token", ".my.cnf", ".npmrc", ".gcloud", ".dev.vars",
    ".s3cfg", ".boto",
    ".gem", ".cargo", ".azure", ".terraform", ".password-store", ".mylogin.cnf", ".databrickscfg",
    ".smbcredentials", ".fetchmailrc", ".msmtprc", ".muttrc", ".rhosts", ".snowsql", ".config",
    ".kaggle", ".huggingface",
)  # fmt: skip
register_keywords(_HIDDEN_NAMES)
# Each begins with a substring of all its matches, since a search for substrings is many times
# faster.
_SECRET_NAMES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = (
    (
        _HIDDEN_NAMES,
        re.compile(
            r"\.(?:env(?:\.(?!example|sample|template|dist|test\b)\w{1,20})?(?![\w.(])"
            r"|ssh(?:[/\\][\w.-]{1,60})?(?![\w(])|aws[/\\]credentials|netrc\b|pgpass\b|pypirc\b"
            r"|git-credentials\b|gnupg\b|htpasswd\b|kube[/\\]config|docker[/\\]config\.json"
            r"|dev\.vars\b|s3cfg\b|boto\b|gem[/\\]credentials|cargo[/\\]credentials(?:\.toml)?"
            r"|azure[/\\]\w{1,40}\.json|terraform\.d[/\\]\w|terraformrc\b|password-store\b|mylogin\.cnf\b"
            r"|databrickscfg\b|dockercfg\b|smbcredentials\b|fetchmailrc\b|msmtprc\b|muttrc\b|rhosts\b"
            r"|snowsql[/\\]config|config[/\\]gh[/\\]|kaggle[/\\]kaggle\.json|huggingface[/\\]token"
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
    (
        ("/etc/",),
        re.compile(
            r"/etc/(?:shadow|gshadow|sudoers|ipsec\.secrets|krb5\.keytab|ppp/(?:chap|pap)-secrets"
            r"|ssh/ssh_host_\w{2,10}_key(?!\.pub)|ssl/private/[\w.-]{1,60}|kubernetes/\w{2,30}\.conf"
            r"|letsencrypt/(?:live|archive)/[\w./-]{1,80}|NetworkManager/system-connections\b"
            r"|openvpn/[\w.-]{1,60})"
        ),
    ),
    (("/secrets/",), re.compile(r"(?:/run|/mnt|/var/run)/secrets/[\w./-]{1,100}")),
    (("kubeconfig", "kube-config"), re.compile(r"kube-?config\.(?:ya?ml|conf|json)\b")),
    (("wp-config",), re.compile(r"wp-config(?:-\w{1,20})?\.php\b(?<!sample\.php)")),
    (("keytab",), re.compile(r"[\w-]{1,40}\.keytab\b")),
    (("ssh_host_",), re.compile(r"ssh_host_\w{2,10}_key(?![\w.])")),
    (
        # Export files of password managers and browsers.
        ("itwarden", "astpass", "ashlane", "1password", "eepass", "roton", "nordpass"),
        re.compile(
            r"(?i:bitwarden|lastpass|dashlane|1password|keepass|proton(?:_?pass)?|nordpass)"
            r"[\w .-]{0,40}(?:export|backup|vault|dump)[\w.-]{0,40}\.(?:json|csv|xml|zip|1pux"
            r"|1pif|txt)\b"
        ),
    ),
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
        ("passw", "logins.", "wachtwoorden", "contraseñas", "senhas", "de_passe"),
        re.compile(
            r"(?:passwords?|passwoerter|passwörter|logins|wachtwoorden|contraseñas|senhas"
            r"|mots?[_ -]de[_ -]passe)\.(?:txt|csv|xlsx?|docx?|md|ods|kdbx)\b"
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
    """Finds paths below a user's home folder, and files that hold secrets."""

    name = "paths"

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """See `Detector`."""
        for piece, pattern in _HOMES:
            if piece in text:
                for match in pattern.finditer(text):
                    before = text[max(0, match.start() - 1) : match.start()]
                    if not before.isalnum():
                        end = match.start() + len(match[0].rstrip(".!]}"))
                        yield self._finding(FindingKind.FILE_PATH, match.start(), end, text)
        for pieces, pattern in _SECRET_NAMES:
            if pieces is _HIDDEN_NAMES:
                if keywords_in(text).isdisjoint(pieces):
                    continue
            elif not any(map(text.__contains__, pieces)):
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

    def _in_folder(self, text: str, start: int, end: int) -> SensitiveFinding:
        """Return the file, including the folders written before it."""
        front = _FRONT_OF.search(text[max(0, start - _LONGEST_FRONT) : start])
        return self._finding(
            FindingKind.SECRET_PATH, start - (len(front[0]) if front else 0), end, text
        )

    def _finding(self, kind: FindingKind, start: int, end: int, text: str) -> SensitiveFinding:
        value = text[start:end]
        return SensitiveFinding(kind=kind, start=start, end=end, value=value, detector=self.name)
