"""Patterns of cue phrases: rules, preferences, decisions, corrections, questions.

In English, German, French and Spanish; in other languages only names, numbers and the like are
found.
"""

from __future__ import annotations

import re


def _any(*phrases: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(phrases)})(?!\w)", re.IGNORECASE)


RULE = _any(
    r"(?:please|must|should|shall|will|may|to)\s+(?:always|never)", r"must(?:n['’]t)?",
    r"do\s+not", r"don['’]t\s+(?:ever|(?!know|think|mind|worry|want|have|like|need)\w+)",
    r"from\s+now\s+on", r"no\s+more", r"avoid", r"under\s+no\s+circumstances", r"not\s+allowed",
    r"stop\s+\w+ing", r"leave\s+out", r"without\s+exception", r"at\s+all\s+costs", r"forbidden",
    r"off[\s-]limits", r"bitte\s+(?:nie|immer)", r"auf\s+keinen\s+fall", r"ab\s+jetzt", r"niemals",
    r"jamais", r"toujours", r"nunca", r"siempre", r"desde\s+ahora",
)  # fmt: skip
COMMAND = re.compile(r"^(?:always|never|only|nie|immer)\b", re.IGNORECASE)
"""Words that state a rule only at the beginning of a sentence; elsewhere they describe."""
PREFERENCE = _any(
    r"prefer\w*", r"favou?rite", r"rather", r"allergic", r"vegan", r"vegetarian", r"fond\s+of",
    r"(?:i|we)(?:['’]d|\s+would)?\s+(?:\w+\s+)?(?:love|like|hate|dislike|enjoy|want)",
    r"can['’]?t\s+stand", r"happiest", r"works?\s+best", r"best", r"suits?\s+me", r"for\s+me",
    r"ha(?:s|ve)\s+to\s+be", r"needs?\s+to\s+be", r"am\s+afraid\s+of", r"lieber", r"am\s+liebsten",
    r"ich\s+mag", r"préfère", r"j['’]aime", r"prefiero", r"me\s+gusta",
)  # fmt: skip
DECISION = _any(
    r"decided", r"decision", r"settled", r"chose(?:n)?", r"pick(?:ed)?", r"opted", r"agreed",
    r"(?:let['’]s|we['’]ll|i['’]ll|we|i)\s+(?:go|went|going|take)\s+(?:with|for|the)",
    r"(?:we|i)\s+will\s+\w+", r"it\s+will\s+be", r"entschieden", r"décidé", r"decidido",
)  # fmt: skip
REASON = _any(
    r"because", r"since\s+\w+", r"the\s+reason", r"so\s+that", r"that['’]s\s+why", r"weil",
    r"denn", r"parce\s+que", r"porque",
)  # fmt: skip
CORRECTION = _any(
    r"actually", r"correction", r"i\s+meant", r"i\s+misspoke", r"scratch\s+that",
    r"make\s+(?:that|it)", r"no\s+longer", r"any\s*more", r"instead", r"chang(?:e|es|ed|ing)",
    r"mov(?:e|ed)\s+(?:to|from)", r"not\s+\S+\s+but", r"(?:was|is)\s+wrong",
    r"mixed\s+(?:\w+\s+)?up", r"mistak\w+", r"update[:,]?", r"turns?\s+out", r"rescheduled",
    r"postponed", r"brought\s+forward", r"pushed\s+(?:back|to)", r"shifted", r"swapped",
    r"switch(?:ed)?", r"renamed", r"replaced", r"rather\s+than", r"after\s+all",
    r"on\s+second\s+thoughts?", r"measured\s+again", r"misremembered", r"misread",
    r"i\s+was\s+told", r"(?:as|what|than|that|day|time)\s+i\s+(?:said|told)",
    r"forget\s+what\s+i\s+said", r"is\s+now", r"now\s+it['’]s",
    r"new\s+(?:time|date|day|place|plan|number|address|code)", r"cancel\w*", r"doch\s+nicht",
    r"sondern", r"stattdessen", r"korrektur", r"verschoben", r"geändert", r"en\s+fait",
    r"finalement", r"en\s+realidad", r"mejor\s+dicho",
)  # fmt: skip
OPEN = _any(
    r"still\s+(?:need|have|don['’]t|not|open|unclear|unsure|waiting|undecided|looking)",
    r"haven['’]t\s+(?:\w+\s+)?(?:decided|found|heard|figured|settled|checked)", r"tbd",
    r"not\s+sure\s+yet", r"undecided", r"open\s+question", r"to\s+find\s+out", r"remind\s+me",
    r"don['’]t\s+know\s+yet", r"unclear", r"unanswered", r"have\s+to\s+(?:check|ask|find|decide)",
    r"to\s+be\s+decided", r"no\s+answer\s+yet", r"come\s+back\s+to", r"noch\s+offen",
    r"weiß\s+noch\s+nicht", r"à\s+voir", r"por\s+decidir", r"yet\s+to",
)  # fmt: skip
SELF = _any(
    r"my\s+name", r"i\s+am", r"i['’]m", r"i\s+(?:live|work|teach|study|run|own|have)", r"my\s+\w+",
    r"our\s+\w+", r"call\s+me", r"we\s+(?:live|have|are)", r"mein\w*",
    r"ich\s+(?:bin|heiße|wohne)", r"je\s+suis", r"mon|ma|mes", r"soy", r"mi",
)  # fmt: skip
PHATIC = _any(
    r"thanks?", r"thank\s+you", r"sounds?", r"lovely", r"great", r"nice", r"wonderful", r"perfect",
    r"you\s+explain", r"never\s+mind", r"danke", r"merci", r"gracias",
)  # fmt: skip
"""Polite phrases without content."""
PASSING = _any(
    r"today", r"yesterday", r"this\s+(?:morning|evening)", r"last\s+night", r"once", r"just\s+now",
    r"heute", r"gestern", r"hier", r"ayer",
)  # fmt: skip
"""Phrases about past events."""
PAST = _any(r"went", r"was", r"were", r"had", r"used\s+to")
"""Verbs that describe the past, not the present state."""
