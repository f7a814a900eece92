"""Unicode characters for TeX commands, superscripts and subscripts."""

from __future__ import annotations

from typing import Final


def _pairs(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


GREEK: Final = _pairs(
    "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι "
    "kappa κ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς "
    "tau τ upsilon υ phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π "
    "Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω"
)
SYMBOLS: Final = GREEK | _pairs(
    "infty ∞ partial ∂ nabla ∇ forall ∀ exists ∃ nexists ∄ emptyset ∅ varnothing ∅ hbar ℏ ell ℓ "
    "Re ℜ Im ℑ aleph ℵ wp ℘ angle ∠ degree ° prime ′ dagger † ddagger ‡ checkmark ✓ bullet • "
    "ldots … dots … cdots ⋯ vdots ⋮ ddots ⋱ dotsc … dotsb ⋯ therefore ∴ because ∵ top ⊤ bot ⊥ "
    "lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ langle ⟨ rangle ⟩ lbrace { rbrace } lbrack [ rbrack ] "
    "vert | Vert ‖ lvert | rvert | lVert ‖ rVert ‖ backslash \\ triangle △ square □ blacksquare ■ "
    "diamond ⋄ star ⋆ neg ¬ lnot ¬ imath ı jmath ȷ complement ∁ circ ∘"
)
LARGE: Final = _pairs(
    "sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ bigcup ⋃ bigcap ⋂ bigoplus ⨁ bigotimes ⨂ "
    "bigvee ⋁ bigwedge ⋀"
)
"""Operators whose limits are placed above and below."""
OPERATORS: Final = _pairs(
    "times × div ÷ pm ± mp ∓ cdot · ast ∗ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ cup ∪ cap ∩ setminus ∖ "
    "wedge ∧ land ∧ vee ∨ lor ∨ uplus ⊎ sqcup ⊔ sqcap ⊓ bmod mod"
)
RELATIONS: Final = _pairs(
    "le ≤ leq ≤ leqslant ⩽ ge ≥ geq ≥ geqslant ⩾ ne ≠ neq ≠ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ "
    "propto ∝ ll ≪ gg ≫ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ "
    "perp ⊥ parallel ∥ mid ∣ nmid ∤ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ prec ≺ succ ≻ preceq ⪯ "
    "succeq ⪰ doteq ≐ asymp ≍ coloneqq ≔ triangleq ≜ to → rightarrow → leftarrow ← gets ← "
    "leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⇒ impliedby ⇐ iff ⇔ "
    "mapsto ↦ longmapsto ⟼ longrightarrow ⟶ longleftarrow ⟵ Longrightarrow ⟹ Longleftrightarrow ⟺ "
    "hookrightarrow ↪ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓ nearrow ↗ "
    "searrow ↘ rightharpoonup ⇀ rightleftharpoons ⇌ leadsto ⇝ rightsquigarrow ⇝ lt < gt > colon :"
)
FUNCTIONS: Final = _words(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth log ln lg exp det dim ker "
    "deg gcd lcm max min sup inf lim limsup liminf arg argmax argmin Pr hom tr rank sgn"
)
SPACES: Final = {
    ",": " ", ";": " ", ":": " ", " ": " ", ">": " ", "!": "", "quad": "  ", "qquad": "    ",
    "thinspace": " ", "enspace": " ", "hfill": " ",
}  # fmt: skip
LITERALS: Final = frozenset("%$#&_{}")
IGNORED: Final = _words(
    "displaystyle textstyle scriptstyle limits nolimits nonumber notag middle left right big Big "
    "bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr hline centering boldmath relax"
)
"""Commands about appearance, which have no effect here."""
PLAIN: Final = _words(
    "mathrm mathit mathbf mathsf mathtt mathnormal boldsymbol bm pmb operatorname boxed"
)
TEXTS: Final = _words("text textbf textit textrm textsf texttt mbox hbox textnormal")
ACCENTS: Final = {
    "hat": "\u0302", "widehat": "\u0302", "bar": "\u0304", "vec": "\u20d7", "dot": "\u0307",
    "ddot": "\u0308", "tilde": "\u0303", "widetilde": "\u0303", "overline": "\u0305",
    "underline": "\u0332", "check": "\u030c", "breve": "\u0306", "acute": "\u0301",
    "grave": "\u0300", "mathring": "\u030a",
}  # fmt: skip
NEGATED: Final = {"=": "≠", "∈": "∉", "⊂": "⊄", "⊆": "⊈", "≡": "≢", "∃": "∄", "∣": "∤", "∥": "∦"}
DOUBLE_STRUCK: Final = (
    dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))
    | {letter: chr(0x1D538 + ord(letter) - 65) for letter in "ABDEFGIJKLMOSTUVWXY"}
    | {"1": "𝟙"}
)
SCRIPT: Final = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True)) | {
    letter: chr(0x1D49C + ord(letter) - 65) for letter in "ACDGJKNOPQSTUVWXYZ"
}
RAISED: Final = dict(
    zip(
        "0123456789+-−=()abcdefghijklmnoprstuvwxyzABDEGHIJKLMNOPRTUVWαβγδεθφχ′∗*,",
        "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁⱽᵂᵅᵝᵞᵟᵋᶿᵠᵡ′**,",
        strict=True,
    )
)  # fmt: skip
LOWERED: Final = dict(
    zip(
        "0123456789+-−=()aehijklmnoprstuvxβγρφχ,",
        "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓᵦᵧᵨᵩᵪ,",
        strict=True,
    )
)
