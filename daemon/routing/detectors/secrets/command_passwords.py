"""Detects passwords in arguments of commands and statements, which have no label."""

from __future__ import annotations

import re

from ...text_analysis.text_index import keywords_in, register_keywords

_ARGUMENT = r"['\"]?([^\s'\"$<>{}][^\s'\"<>{}]{2,127})"
_SHAPES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("sshpass",), rf"\bsshpass\s{{1,3}}-p\s?{_ARGUMENT}"),
    (("mysql", "mariadb"), rf"\b(?:mysql|mariadb)(?:dump|admin|-dump)?\s[^\n"
                           rf"|;]{{0,200}}?(?<=\s)-p{_ARGUMENT}"),
    (("net use",), r"\bnet\s+use\s[^\n]{0,200}?/user:\S{1,80}\s{1,3}(?![/*])" + _ARGUMENT),
    (("net use",),
     r"\bnet\s+use\s+(?:\S:\s+)?\\\\[^\s\\]{1,60}\\\S{1,80}\s{1,3}(?![/*])" + _ARGUMENT),
    (("net user",), r"\bnet\s+user\s+[\w.-]{1,60}\s+(?![/*])" + _ARGUMENT),
    (("7z a", "7z x", "7za ", "rar a", "rar x", "unrar"), rf"\b(?:7z[ar]?|(?:un)?rar)\s[^\n"
                                                          rf"|;]{{0,160}}?(?<=\s)-h?p{_ARGUMENT}"),
    (("zip ",), rf"\b(?:un)?zip\s[^\n|;]{{0,160}}?(?<=\s)-P\s?{_ARGUMENT}"),
    (("openssl",), r"-pass(?:in|out)?\s{1,3}['\"]?pass:" + _ARGUMENT),
    (("docker", "podman", "helm", "az login", "skopeo"),
     rf"\blogin\s[^\n|;]{{0,160}}?(?<=\s)-p\s{_ARGUMENT}"),
    (("ldap",), rf"\bldap[a-z]{{3,8}}\s[^\n|;]{{0,240}}?(?<=\s)-w\s?{_ARGUMENT}"),
    (("redis-cli",), rf"\bredis-cli\s[^\n|;]{{0,160}}?(?<=\s)(?:-a|--pass)\s{_ARGUMENT}"),
    (("mongo",), rf"\bmongo(?:sh|dump|restore|export|import)?\s[^\n"
                 rf"|;]{{0,200}}?(?<=\s)-p\s{_ARGUMENT}"),
    (("rdesktop", "sqlcmd", "impacket", "crackmapexec", "evil-winrm", "mosquitto_"),
     rf"\b(?:rdesktop|sqlcmd|crackmapexec|evil-winrm|mosquitto_[ps]ub)\s[^\n|;]{{0,200}}?(?<=\s)-[pP]\s{_ARGUMENT}"),
    (("freerdp",), rf"\b\w?freerdp\s[^\n|;]{{0,200}}?(?<=\s)/p:{_ARGUMENT}"),
    (("smbclient", "rpcclient"), r"\b(?:smb|rpc)client\s[^\n"
                                 r"|;]{0,200}?-U\s?['\"]?[^\s'\"%]{1,80}%" + _ARGUMENT),
    (("chpasswd",), r"['\"\s][\w.-]{1,60}:([^\s'\"|$]{3,128})['\"]?\s{0,3}\|\s{0,3}"
                    r"(?:sudo\s+)?chpasswd"),
    (("sudo -s", "--stdin", "password-stdin"),
     r"\becho\s+(?:-n\s+)?['\"]?([^\s'\"|$]{3,128})['\"]?\s{0,3}\|\s{0,3}"
     r"(?:sudo\s+-S\b|(?:sudo\s+)?passwd\s+--stdin|[^\n|]{1,120}--password-stdin)"),
    (("rabbitmqctl",), rf"\brabbitmqctl\s+(?:add_user"
                       rf"|change_password)\s+[\w.-]{{1,60}}\s+{_ARGUMENT}"),
    (("nmcli",), rf"\bnmcli\s[^\n|;]{{0,160}}?\spassword\s{_ARGUMENT}"),
    (("username ", "enable password", "enable secret"), r"(?m:^)[ \t]*(?:username\s+\S{1,40}"
                                                        r"(?:\s+privilege\s+\d+)?|enable)\s+"
                             r"(?:password|secret)\s+(?:\d\s+)?" + _ARGUMENT),
    (("identified by", "identified with"), r"\bidentified\s+(?:with\s+\S{1,60}\s+)?by\s+"
                                           r"(?:password\s+)?['\"]"
                      r"([^'\"\n]{3,128})['\"]"),
    (("password",), r"\bpassword(?:\s{1,3}|\s{0,3}[=(]\s{0,3}(?:password\s?\(\s?)?)N?'"
                    r"([^'\s$%{}<>()]{4,128})'"),
    (("securestring",), r"convertto-securestring\s+(?:-string\s+)?[\"']([^\"'$\n]{3,128})[\"']"),
    (("auth\"", "_auth"), r"(?:\"auth\"\s{0,3}:\s{0,3}\"|_auth\s{0,3}=\s{0,3}\"?)"
                          r"([A-Za-z0-9+/]{8,400}={0,2})(?![\w+/])"),
)  # fmt: skip
_COMMANDS = tuple(
    (frozenset(pieces), re.compile(shape, 0 if "-P" in shape else re.IGNORECASE))
    for pieces, shape in _SHAPES
)
for _pieces, _ in _COMMANDS:
    register_keywords(_pieces)


def commands_in(text: str) -> list[re.Pattern[str]]:
    """Return the patterns, with the password as first group, that have a word in the text."""
    present = keywords_in(text)
    return [shape for pieces, shape in _COMMANDS if not pieces.isdisjoint(present)]
