"""Detectors of structured personal identifiers: cards, accounts, ids, phones, machine addresses."""
