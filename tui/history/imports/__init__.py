"""Chats of other programs: each module reads one program's files into our own tree."""
