"""Commands for the daemon, its machine and its clients."""
