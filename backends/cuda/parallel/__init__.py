"""One model on several devices: a process for each, which compute every step together."""
