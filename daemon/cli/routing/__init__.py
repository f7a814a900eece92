"""Commands for routes, providers and the egress ledger."""
