"""Tools that a model can call, in a process that a client starts in its own folder."""
