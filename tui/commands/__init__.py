"""The table of commands, its keys, and results of commands that every front end presents."""
