"""Detects the language of a text, as far as the detectors depend on it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from .word_tokens import word_set

KNOWN = ("en", "de", "fr", "es")
UNKNOWN = "unknown"

# Function words of the languages that the detectors support, and of some others.
_SMALL_WORDS = {
    "en": word_set(
        "the a an and or of to in is are was were be been it this that these for with on at by "
        "from as not you i we he she they my your his her our their what how why when which who "
        "do does did can could would should will have has had if than then there me him them "
        "about into write explain please give make list create find no so but up out all more"
    ),
    "de": word_set(
        "der die das den dem des ein eine einen einem einer eines und oder ist sind war waren wird "
        "werden wurde zu zum zur mit von vom für auf aus bei nach nicht ich du er sie es wir ihr "
        "mein meine meinen meinem meiner dein sein ihre unser was wie warum wann welche wer kann "
        "können soll hat haben habe bin wenn dass auch noch nur als im am an in um über bitte mir "
        "mich dich sich kein keine so aber seit erkläre schreibe"
    ),
    "fr": word_set(
        "le la les un une des du de et ou est sont était à au aux en dans pour par avec sur sous "
        "ne pas que qui quoi dont où je tu il elle nous vous ils elles mon ma mes ton son sa ses "
        "notre votre leur ce cette ces comment pourquoi quand quel quelle peut peux faire fait ai "
        "as a ont être avoir plus moins très si mais donc d'un d'une c'est j'ai qu'il l'on"
    ),
    "es": word_set(
        "el la los las un una unos unas de del y o es son era está están fue a al en para por con "
        "sin sobre no que qué quien quién yo tú él ella nosotros ellos mi mis tu su sus nuestro "
        "este esta estos esto cómo como cuándo cuál dónde por puede puedo hacer hay he ha han ser "
        "estar tener más menos muy si pero me te se lo le les escribe explica"
    ),
    "it": word_set(
        "il lo gli della delle degli di che è sono nel nella per con una un non mio mia come "
        "perché quando questo questa anche ma più ho hai hanno si al alla dal suo sua ci e "
        "alle agli dai dalla sulla quanto quanti quali quale dove sai posso puoi vorrei ciao sei "
        "essere fare molto tutto cosa"
    ),
    "pt": word_set(
        "o os as um uma do da dos das em no na nos nas para por com não que é são foi meu minha "
        "como porque quando este esta isso também mas mais eu você ele ela seu sua ao à e uns tem"
    ),
    "nl": word_set(
        "de het een en van is zijn was niet ik je hij zij wij mijn jouw haar ons voor met op aan "
        "uit naar maar ook als dat die dit wat hoe waarom wie kan heeft heb hebben worden er te om"
    ),
    "pl": word_set(
        "i w na z do nie się że jest są był była to jak co ja ty on ona my mój moja dla po od "
        "przez ale czy tylko już ten ta które który mam mnie o u za"
    ),
    "sv": word_set(
        "och att det som en ett är var jag du han hon vi min mitt inte på för med av till från "
        "hur vad varför när kan har hade men om så sig den de"
    ),
    "da": word_set(
        "og at det som en et er var jeg du han hun vi min mit ikke på for med af til fra hvordan "
        "hvad hvorfor når kan har havde men om så sig den de"
    ),
    "fi": word_set(
        "ja on ei se että en olen oli hän minä minun miten mikä miksi kun mutta myös tai kanssa "
        "ovat voi joka tämä sitä"
    ),
    "tr": word_set(
        "ve bir bu için ile de da ne nasıl neden ben benim sen o biz değil var yok çok gibi ama mi "
        "daha olarak olan kadar"
    ),
    "cs": word_set(
        "a je se na v že to s z do ne jsem jsou byl byla jak co proč když můj moje pro ale nebo "
        "jako po od už tak"
    ),
    "hr": word_set(
        "je se na da su za od kako što šta ali ili nije sam smo koji koja moj moja mi kao iz po "
        "zašto gdje gde mogu treba"
    ),
    "ro": word_set(
        "și este sunt nu că în la de pe cu un o care mai din pentru ce cum eu meu mea am ai are "
        "fost sau dar"
    ),
    "hu": word_set(
        "a az és hogy nem is egy van volt én te ő mi ez azt csak mint meg de ha már vagy "
        "hogyan miért nekem"
    ),
    "id": word_set(
        "yang dan di ke dari untuk dengan tidak ini itu saya anda kamu dia kami adalah ada akan "
        "bisa apa bagaimana karena pada juga sudah"
    ),
    "vi": word_set("và là của có không một cho tôi bạn này đó được trong với các những như để"),
    "tl": word_set("ang ng sa mga ko mo na at ay hindi ako ikaw siya kami ito po para may"),
    "sw": word_set("na ya wa kwa ni la za katika kuwa mimi yangu yako hii si au kama"),
}
# Single letters are words of too many languages.
_LANGUAGES_OF = {
    word: tuple(name for name, small in _SMALL_WORDS.items() if word in small)
    for word in frozenset[str]().union(*_SMALL_WORDS.values())
    if len(word) > 1
}
_FOREIGN = re.compile(r"[^\W\d_\u0000-\u024f]{2,}")
# Letters of other scripts, or marks that make such letters of Latin ones.
_MAY_BE_FOREIGN = re.compile(r"[^\u0000-\u024f‐-‧€™]")
_ENOUGH_FOREIGN = 8
_WORDS_LOOKED_AT = 150
_ENOUGH_WORDS = 12


def language_of(text: str, words: Sequence[str]) -> str:
    """Return one of `KNOWN`, or `UNKNOWN` if a large part is in another language or script.

    `words` are the text's, in lower case. A text too short to tell counts as English.
    """
    foreign = 0
    if _MAY_BE_FOREIGN.search(text):
        foreign = sum(map(len, _FOREIGN.findall(unicodedata.normalize("NFC", text[:8000]))))
    letters = sum(map(len, words))
    if foreign >= _ENOUGH_FOREIGN and foreign * 10 > letters:
        return UNKNOWN
    hits = dict.fromkeys(_SMALL_WORDS, 0)
    distinct = {*words[:_WORDS_LOOKED_AT], *words[_WORDS_LOOKED_AT:][-_WORDS_LOOKED_AT:]}
    for word in distinct & _LANGUAGES_OF.keys():
        for language in _LANGUAGES_OF[word]:
            hits[language] += 1
    best = max(hits, key=lambda language: (hits[language], language in KNOWN))
    known = max(KNOWN, key=lambda language: hits[language])
    if best not in KNOWN and hits[best] >= 3 and hits[best] > hits[known] + 1:
        return UNKNOWN
    if hits[known] == 0:
        return "en" if len(distinct) < _ENOUGH_WORDS else UNKNOWN
    return known
