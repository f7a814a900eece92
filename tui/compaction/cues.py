"""Words by which people mark what matters: rules, preferences, decisions, corrections, questions.

Searched in English, German, French and Spanish; in other languages only names, numbers and the
like are found.
"""

from __future__ import annotations

import re


def _any(*phrases: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)", re.IGNORECASE)


RULE = _any(
    r"never", r"always", r"must(?:n['’]t)?", r"do\s+not",
    r"don['’]t\s+(?!know|think|mind|worry)\w+",
    r"from\s+now\s+on", r"no\s+more", r"avoid", r"under\s+no\s+circumstances", r"not\s+allowed",
    r"stop\s+\w+ing", r"leave\s+out", r"without\s+exception", r"at\s+all\s+costs", r"forbidden",
    r"off[\s-]limits", r"nie(?:mals)?", r"immer", r"auf\s+keinen\s+fall", r"ab\s+jetzt", r"jamais",
    r"toujours", r"nunca", r"siempre", r"desde\s+ahora",
)  # fmt: skip
PREFERENCE = _any(
    r"prefer\w*", r"favou?rite", r"rather", r"i\s+(?:really\s+)?(?:love|like|hate|dislike|enjoy)",
    r"can['’]?t\s+stand", r"allergic", r"vegan", r"vegetarian", r"fond\s+of", r"works?\s+best",
    r"suits?\s+me", r"i['’]d\s+like", r"i\s+want", r"am\s+afraid\s+of", r"lieber", r"am\s+liebsten",
    r"ich\s+mag", r"préfère", r"j['’]aime", r"prefiero", r"me\s+gusta",
)  # fmt: skip
DECISION = _any(
    r"decided", r"decision", r"settled\s+on", r"chose(?:n)?", r"picked", r"opted", r"agreed",
    r"(?:let['’]s|we['’]ll|i['’]ll|we|i)\s+(?:go|went|going)\s+(?:with|for)", r"because",
    r"since\s+\w+",
    r"the\s+reason", r"so\s+that", r"entschieden", r"weil", r"décidé", r"parce\s+que", r"decidido",
    r"porque",
)  # fmt: skip
CORRECTION = _any(
    r"actually", r"correction", r"i\s+meant", r"i\s+misspoke", r"scratch\s+that", r"make\s+that",
    r"no\s+longer", r"any\s*more", r"instead", r"changed", r"moved\s+(?:to|from)",
    r"not\s+\S+\s+but",
    r"was\s+wrong", r"mixed\s+up", r"mistake", r"turns\s+out", r"update[:,]?", r"rescheduled",
    r"replaced", r"rather\s+than", r"forget\s+what\s+i\s+said", r"now\s+it['’]s", r"instead\s+of",
    r"doch\s+nicht", r"sondern", r"stattdessen", r"korrektur", r"en\s+fait", r"finalement",
    r"en\s+realidad", r"mejor\s+dicho",
)  # fmt: skip
OPEN = _any(
    r"still\s+(?:need|have|don['’]t|not|open|unclear|unsure|waiting|undecided|looking)",
    r"haven['’]t\s+(?:\w+\s+)?(?:decided|found|heard|figured|settled|checked)", r"tbd",
    r"not\s+sure\s+yet",
    r"undecided", r"open\s+question", r"to\s+find\s+out", r"remind\s+me", r"don['’]t\s+know\s+yet",
    r"unclear", r"unanswered", r"have\s+to\s+(?:check|ask|find|decide)",
    r"to\s+be\s+decided",
    r"no\s+answer\s+yet", r"come\s+back\s+to", r"noch\s+offen", r"weiß\s+noch\s+nicht", r"à\s+voir",
    r"por\s+decidir", r"yet\s+to",
)  # fmt: skip
SELF = _any(
    r"my\s+name", r"i\s+am", r"i['’]m", r"i\s+(?:live|work|teach|study|run|own|have)", r"my\s+\w+",
    r"our\s+\w+", r"call\s+me", r"we\s+(?:live|have|are)", r"mein\w*", r"ich\s+(?:bin|heiße|wohne)",
    r"je\s+suis", r"mon|ma|mes", r"soy", r"mi",
)  # fmt: skip
