"""Commands for routes, providers and the ledger."""
