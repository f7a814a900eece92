"""Words for digits and for numbers below a hundred, in the languages that people spell them in."""

from __future__ import annotations

_UNITS = {
    "0": "zero null nul zéro cero nil nought naught noll sıfır ноль нуль nolla nula nulla "
    "μηδέν nol không शून्य صفر",
    "1": "one eins ein eine un une uno una um uma een één jeden ett en et bir один одна yksi "
    "jedna unu egy ένα satu một एक واحد",
    "2": "two zwei zwo deux dos due dois duas twee dwa två to iki два две kaksi dva doi două "
    "kettő két δύο dua hai दो اثنان",
    "3": "three drei trois tres tre três drie trzy üç три kolme tři trei három τρία tiga तीन ثلاثة",
    "4": "four vier quatre cuatro quattro quatro cztery fyra fire dört четыре neljä čtyři "
    "patru négy τέσσερα empat bốn चार أربعة",
    "5": "five fünf fuenf cinq cinco cinque vijf pięć fem beş пять viisi pět cinci öt πέντε "
    "lima năm पांच पाँच خمسة",
    "6": "six sechs seis sei zes sześć sex seks altı шесть kuusi šest șase hat έξι enam sáu "
    "छह छः ستة",
    "7": "seven sieben sept siete sette sete zeven siedem sju syv yedi семь seitsemän sedm "
    "șapte hét επτά εφτά tujuh bảy सात سبعة",
    "8": "eight acht huit ocho otto oito osiem åtta otte sekiz восемь kahdeksan osm opt nyolc "
    "οκτώ οχτώ delapan tám आठ ثمانية",
    "9": "nine neun neuf nueve nove negen dziewięć nio ni dokuz девять yhdeksän niner devět "
    "nouă kilenc εννέα εννιά sembilan chín नौ تسعة",
}  # fmt: skip
_FROM_TEN = (
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn",
    "tien elf twaalf dertien veertien vijftien zestien zeventien achttien negentien",
    "dix onze douze treize quatorze quinze seize",
    "diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve",
    "dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove",
    "dez onze doze treze catorze quinze dezesseis dezessete dezoito dezenove",
    "tio elva tolv tretton fjorton femton sexton sjutton arton nitton",
    "ti elleve tolv tretten fjorten femten seksten sytten atten nitten",
    "десять одиннадцать двенадцать тринадцать четырнадцать пятнадцать шестнадцать семнадцать "
    "восемнадцать девятнадцать",
)
_TENS = (
    "twenty thirty forty fifty sixty seventy eighty ninety",
    "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "twintig dertig veertig vijftig zestig zeventig tachtig negentig",
    "vingt trente quarante cinquante soixante septante huitante nonante",
    "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
    "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "tjugo trettio fyrtio femtio sextio sjuttio åttio nittio",
    "tjue tretti førti femti seksti sytti åtti nitti",
    "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
)
# Languages that join tens and units: the units from one on, the joint, the tens.
_UNITS_FIRST = (
    ("ein zwei drei vier fünf sechs sieben acht neun", ("und",), _TENS[1]),
    ("een twee drie vier vijf zes zeven acht negen", ("en", "ën"), _TENS[2]),
)
_TENS_FIRST = (
    ("uno due tre quattro cinque sei sette otto nove", _TENS[5]),
    ("ett två tre fyra fem sex sju åtta nio", _TENS[7]),
    ("en to tre fire fem seks sju åtte ni", _TENS[8]),
)
_TWENTIES = (
    "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho "
    "veintinueve"
)


def number_words() -> dict[str, str]:
    """Return the digits of each word: one for those below ten, two for the others."""
    words = {word: digit for digit, row in _UNITS.items() for word in row.split()}
    numbers: dict[str, str] = {"vingts": "20", "dreissig": "30"}
    for row in _FROM_TEN:
        numbers |= {word: str(n) for n, word in enumerate(row.split(), 10)}
    for row in _TENS:
        numbers |= {word: f"{n}0" for n, word in enumerate(row.split(), 2)}
    for units, links, tens in _UNITS_FIRST:
        for one, unit in enumerate(units.split(), 1):
            for ten, word in enumerate(tens.split(), 2):
                numbers |= {unit + link + word: f"{ten}{one}" for link in links}
    for units, tens in _TENS_FIRST:
        for one, unit in enumerate(units.split(), 1):
            for ten, word in enumerate(tens.split(), 2):
                # Italian drops a vowel before another.
                short = word[:-1] if unit in ("uno", "otto") else word
                numbers[short + unit] = f"{ten}{one}"
                if unit == "tre":
                    numbers[short + "tré"] = f"{ten}{one}"
    numbers |= {word: str(n) for n, word in enumerate(_TWENTIES.split(), 21)}
    return numbers | words
