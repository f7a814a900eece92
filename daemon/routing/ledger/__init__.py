"""Append-only, hash-chained ledger of what left this machine."""
