"""Generic modal screens: confirm, one line, text, table and progress."""
