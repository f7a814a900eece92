"""Detects phrases that mark a text as private or confidential, in several languages."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..text_analysis.text_index import lowered
from .context_words import Phrases, windows
from .finding import FindingKind, SensitiveFinding

_THIS = (
    r"(?: (?:this|it|that|the following|any of this|all of this|these|das|dies|dieses|ceci|esto"
    r"|questo|isto|dit))?"
)
_PRIVATE = re.compile(
    r"local[ -]only|only local(?:ly)?|(?:keep|stay|leave|process|handle|answer)" + _THIS +
    r" (?:strictly |only )?(?:local(?:ly)?|private|secret|confidential|offline|between us|to "
    r"yourself|on (?:this|my) "
    r"(?:machine|computer|device|laptop|pc))"
    r"|(?:do not|don['’]?t|never|must not|mustn['’]?t|not to be) (?:ever "
    r")?(?:share|send|upload|forward|"
    r"disclose|leak|publish|distribute|post)(?:d|ed)?(?: (?:this|it|that|any of this"
    r"|anything|these|outside|"
    r"to (?:the )?cloud|to anyone|with anyone|externally|elsewhere|online|any further|further))"
    r"|not for (?:sharing|distribution|the cloud|publication|cloud)"
    r"|no cloud(?=[.,;!)]|$| please)|off the record"
    r"|for your eyes only"
    r"|between (?:you and me|us only|the two of us)|this (?:is|stays|remains) (?:strictly "
    r")?(?:private|secret)\b"
    r"|must not leave (?:this|my|the) (?:machine|computer|device|house|building|company)"
    r"|do not (?:share|distribute|forward|disclose)\b|don['’]?t (?:tell|share with) any(?:one|body)"
    r"|bleib[te]? (?:lokal|hier|privat|unter uns)|nur lokal|lokal bleiben|nicht (?:weitergeben"
    r"|weiterleiten|teilen|"
    r"in die cloud|veröffentlichen|hochladen)|unter uns gesagt|bleibt unter uns"
    r"|ne (?:pas|jamais) (?:partager|diffuser|transmettre|divulguer)|(?:reste|garde[rz]?)(?: "
    r"ceci| ça| cela)? "
    r"(?:en local|local|entre nous|pour toi|confidentiel)|uniquement en local"
    r"|no (?:lo )?(?:compartir|compart[ai]s?|difundir|divulgar|enviar a la nube)|solo (?:en "
    r")?local|queda entre nosotros"
    r"|non (?:condividere|divulgare|diffondere)|solo in locale|resta tra noi"
    r"|não (?:compartilh\w+|partilh\w+|divulg\w+)|somente local|fica entre nós"
    r"|niet (?:delen|doorsturen|verspreiden)|alleen lokaal|onder ons"
    r"|nie (?:udostępnia\w+|rozpowszechnia\w+)|tylko lokalnie|dela inte|del ikke|paylaşma\w*"
    r"|не (?:распространять|пересылать|делиться|публиковать)"
    r"|только локально|между нами"
    r"|请勿(?:外传|分享|转发)|不要(?:外传|分享|上传)|仅限本地|保密"
    r"|他言無用|共有しないで|외부 ?공유 ?금지"
)  # fmt: skip
_CONFIDENTIAL = re.compile(
    r"confidential(?! computing)(?:ity notice|ity agreement)?|for internal use|internal[ -]use[ "
    r"-]only|internal only"
    r"|company[ -]private|proprietary (?:and|information)|trade secrets?|under (?:an? )?nda\b"
    r"|non-?disclosure"
    r"|attorney[- ]client|privileged (?:and|communication)|top secret|tlp:\s?(?:red|amber)|not "
    r"yet public|unreleased"
    r"|need[- ]to[- ]know|embargoed|classified information|restricted distribution|commercial[- "
    r"]in[- ]confidence"
    r"|vertraulich|streng geheim|nur für den (?:internen|dienst)|betriebsgeheim|geschäftsgeheim"
    r"|verschlusssache"
    r"|verschwiegenheit|confidentiel|à usage interne|secret professionnel|diffusion restreinte"
    r"|confidencial|uso interno|secreto comercial|riservat[oaie]\b|strettamente personale"
    r"|confidenziale|segreto aziendale"
    r"|vertrouwelijk|geheimhouding|alleen voor intern|poufn\w+|do użytku wewnętrznego"
    r"|tajemnic\w+ przedsiębiorstwa"
    r"|konfidentiell|fortrolig|luottamuksellinen|gizli(?:dir)?\b|důvěrné|bizalmas"
    r"|конфиденциальн\w+|для служебного пользования|коммерческая тайна"
    r"|机密|機密|内部资料|社外秘|部外秘|대외비|기밀"
)  # fmt: skip
# A substring of every phrase: the patterns run only near these, since most texts have few.
_PRIVATE_PIECES = Phrases((
    "local", "private", "secret", "confidential", "offline", "between", "yourself", "on my",
    "on this",
    "share", "send", "upload", "forward", "disclos", "leak", "publi", "distribut", "post", "repeat",
    "cloud", "the record", "eyes only", "must not leave", "tell any", "lokal", "bleib",
    "weitergeben",
    "weiterleiten", "teilen", "veröffentlich", "hochladen", "unter uns", "partager", "diffuser",
    "transmettre", "divulg", "entre n", "pour toi", "confidentiel", "compart", "difundir", "nube",
    "condivid", "diffond", "in locale", "tra noi", "partilh", "delen", "doorsturen", "verspreiden",
    "lokaal", "onder ons", "udostęp", "rozpowsz", "dela inte", "del ikke", "paylaş", "распростран",
    "пересыл", "делиться", "публиков", "локально", "между нами", "外传", "分享", "转发", "上传",
    "本地", "保密", "他言", "共有", "공유",
))  # fmt: skip
_CONFIDENTIAL_PIECES = Phrases((
    "confiden", "internal", "company", "propriet", "trade secret", "nda", "disclosure", "attorney",
    "privileged", "top secret", "tlp", "not yet public", "unreleased", "need", "embargoed",
    "classified",
    "restricted", "vertraulich", "geheim", "nur für den", "verschlusssache", "verschwiegen",
    "usage interne",
    "professionnel", "restreinte", "uso interno", "secreto", "riserva", "strettamente", "segreto",
    "vertrouwelijk", "intern", "poufn", "wewn", "tajemnic", "konfidentiell", "fortrolig",
    "luottamuk",
    "gizli", "důvěrn", "bizalmas", "конфиденц", "служебн", "тайна", "机密", "機密", "内部", "社外",
    "部外", "대외비", "기밀",
))  # fmt: skip
_AROUND = 60


class MarkDetector:
    """Finds passages that their author marked as private or confidential."""

    name = "marks"

    def find(self, text: str) -> Iterator[SensitiveFinding]:
        """See `Detector`."""
        lower = lowered(text)
        for kind, pieces, pattern in (
            (FindingKind.MARKED_PRIVATE, _PRIVATE_PIECES, _PRIVATE),
            (FindingKind.CONFIDENTIAL, _CONFIDENTIAL_PIECES, _CONFIDENTIAL),
        ):
            places = sorted((end, end) for end in pieces.ends(text))
            for match in _in_windows(pattern, lower, places):
                yield SensitiveFinding(
                    kind=kind,
                    start=match.start(),
                    end=match.end(),
                    value=match[0],
                    detector=self.name,
                )


def _in_windows(
    pattern: re.Pattern[str], lower: str, places: list[tuple[int, int]]
) -> Iterator[re.Match[str]]:
    for start, stop in windows(places, _AROUND, len(lower)):
        yield from pattern.finditer(lower, start, stop)
