"""Other programs' settings: which they are, how their files are changed, and whether it works."""
