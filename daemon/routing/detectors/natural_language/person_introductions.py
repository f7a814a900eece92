"""Phrases that introduce persons: title, relation, greeting, signature or label."""

from __future__ import annotations

from .annotated_text import AnnotatedText
from .word_tokens import word_set

_TITLES = word_set(
    "mr mrs ms miss mx dr prof professor sgt rev herr herrn frau mme mlle monsieur madame señor "
    "señora sr sra srta doña don signor signora sig dhr mevr pan pani"
)
_POSSESSIVES = word_set(
    "my our her his their mein meine meinem meinen meiner meines unser unsere unserem unseren "
    "unserer mon ma mes notre nos mi mis nuestro nuestra su son sa ses sein seine ihr ihre"
)
RELATIONS = word_set(
    "wife husband partner spouse fiancé fiancée fiance fiancee boyfriend girlfriend ex son "
    "daughter child kid baby brother sister twin mother father mum mom dad grandmother "
    "grandfather grandma grandpa aunt uncle cousin nephew niece boss manager supervisor colleague "
    "coworker co-worker employee assistant client customer patient friend neighbour neighbor "
    "landlord landlady tenant flatmate roommate lawyer solicitor therapist teacher student pupil "
    "mann frau sohn tochter bruder schwester mutter vater mama papa oma opa chef chefin kollege "
    "kollegin freund freundin nachbar nachbarin kunde kundin patientin vermieter vermieterin "
    "femme mari fils fille frère sœur mère père collègue ami amie voisin voisine patron patronne "
    "cliente patiente nan gran granny grandad auntie stepson stepdaughter mother-in-law "
    "schwiegermutter schwager schwägerin tante onkel neffe nichte belle-mère beau-frère belle-sœur "
    "tante oncle neveu nièce suegra cuñado cuñada sobrino sobrina tío tía esposa esposo "
    "marido mujer hijo hija hermano hermana madre padre "
    "jefe jefa compañero compañera amigo amiga vecino vecina paciente"
)
_GREETINGS = word_set(
    "dear hi hey hello liebe lieber liebes hallo geehrte geehrter cher chère chere bonjour salut "
    "estimado estimada querido querida hola ciao caro cara morning afternoon evening"
)
_CLOSINGS = word_set(
    "regards sincerely best wishes thanks you cheers yours love faithfully grüße grüßen gruß gruss "
    "grüsse hochachtungsvoll cordialement salutations vous saludos atentamente cordialmente "
    "abrazo respectfully truly"
)
_LABELS = word_set(
    "name patient client applicant employee candidate attendees present from to cc attn tenant "
    "landlord customer plaintiff defendant student beneficiary witness signed kunde mieter "
    "mieterin vermieter antragsteller antragstellerin von an nom prénom locataire nombre apellidos "
    "paciente "
    "cliente inquilino inquilina participants teilnehmer"
)
_SELF = frozenset(
    {
        ("name", "is"),
        ("name", "s"),
        ("am", "called"),
        ("name", "ist"),
        ("ich", "heiße"),
        ("ich", "heisse"),
        ("je", "m'appelle"),
        ("nom", "est"),
        ("me", "llamo"),
        ("nombre", "es"),
    }
)
# These are as often followed by something else: a profession, a nationality.
_SELF_PERHAPS = frozenset(
    {("i", "am"), ("i'm",), ("this", "is"), ("ich", "bin"), ("je", "suis"), ("soy",)}
)
_CALLED = word_set("named called namens names nommé nommée appelé llamado llamada")
_GAPS = frozenset({" ", ". ", ", ", ": ", ":", " (", ",\n", "\n"})


INTRODUCING = frozenset[str]().union(
    *(_TITLES, RELATIONS, _CALLED, _GREETINGS, _CLOSINGS, _LABELS),
    (words[-1] for words in _SELF | _SELF_PERHAPS),
)


def introduction(reading: AnnotatedText, index: int) -> tuple[float, bool]:
    """Return how certainly the preceding words make it a person, and whether any word would do.

    0 if nothing does, as when the word before is not in `INTRODUCING`. The word at `index`, which
    is not the first of the text, is the first of the name.
    """
    last = reading.small[index - 1]
    before = reading.small[max(0, index - 3) : index]
    gap = reading.text[reading.ends[index - 1] : reading.starts[index]]
    if gap in (" ", ". ", "."):
        if last in _TITLES:
            return 0.8, True
        if tuple(before[-2:]) in _SELF or (last,) in _SELF:
            return 0.9, False
        if tuple(before[-2:]) in _SELF_PERHAPS or (last,) in _SELF_PERHAPS:
            return 0.8, False
    if gap in _GAPS and "\n" not in gap:
        related = before[:-1] if last in RELATIONS or last in _CALLED else []
        if last in _CALLED and not any(word in RELATIONS for word in related):
            related = []
        if any(word in _POSSESSIVES for word in related):
            return 0.9, True
    return _of_letters(reading, index, last, gap)


def _of_letters(reading: AnnotatedText, index: int, last: str, gap: str) -> tuple[float, bool]:
    """As `introduction`, for letters and forms."""
    if gap == " " and last in _GREETINGS and _ends(reading, index):
        return 0.75, True
    if "\n" in gap and not gap.strip(" ,.!\n\r-") and last in _CLOSINGS:
        return 0.8, True
    if gap.startswith(":") and not gap.strip(": \t") and last in _LABELS:
        return 0.8, False
    return 0.0, False


def _ends(reading: AnnotatedText, index: int) -> bool:
    """Whether the greeting ends after at most three capitalised words."""
    words = reading.words
    at = index
    while at < len(words) and at < index + 3:
        end = reading.ends[at]
        rest = reading.text[end : end + 2]
        if not rest.strip(" ") or rest[0] in ",!:.;-\n\r":
            return True
        if rest[0] != " ":
            return False
        at += 1
        if at < len(words) and not words[at][0].isupper():
            return False
    return False
