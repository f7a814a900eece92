"""One thin translation per wire protocol; nothing about models lives here."""
