"""Whether a vocabulary has a token for every byte that a text may hold."""

from __future__ import annotations

import llama_cpp

from ..base.errors import LoadFailed


def check_byte_tokens(vocab: llama_cpp.llama_vocab_p) -> None:
    """Raise `LoadFailed` for a vocabulary over which llama.cpp would end at some texts.

    It writes what no token spells byte by byte, and does not ask whether there is a token of a
    byte: the first text that needs a missing one ends the process.
    """
    if llama_cpp.llama_vocab_type(vocab) != llama_cpp.LLAMA_VOCAB_TYPE_SPM:
        return
    missing = {b"<0x%02X>" % value: value for value in range(256)}
    plain = {bytes([value]) for value in range(128)}
    spelled: set[int] = set()
    for token_id in range(llama_cpp.llama_vocab_n_tokens(vocab)):
        text = llama_cpp.llama_vocab_get_text(vocab, token_id)
        if missing.pop(text, None) is not None and not missing:
            return
        if text in plain:
            spelled.add(text[0])
    lacking = [value for value in missing.values() if value not in spelled]
    if lacking:
        raise LoadFailed(
            f"The model's vocabulary has no token for the byte 0x{lacking[0]:02X}.",
            hint="The file is damaged, or was badly converted: use another one.",
        )
