"""The running chat without its screen: connection to the daemon, state, one turn, model choice."""
