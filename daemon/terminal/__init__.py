"""Terminal output: tables, units, colours, and removal of escape sequences."""
