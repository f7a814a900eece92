"""How models write calls of tools: telling the formats, reading them, and forcing them."""
