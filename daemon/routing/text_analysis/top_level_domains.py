"""Top-level domains that are common in e-mail addresses."""

from __future__ import annotations

_NAMES = (
    "com org net de uk fr es it nl pl se no dk fi ch at be pt br in cn jp kr au ca us ru io "
    "dev ai eu edu gov info me co tv app cloud mail example test online sg ee ke my mx za nz "
    "ie gr cz ro hu bg hr rs ua tr il ae sa eg ng pk bd lk ph id th vn tw hk cl ar pe ec uy "
    "ve lu lt lv is biz name"
)
TOP_LEVEL_DOMAINS = frozenset(_NAMES.split())
