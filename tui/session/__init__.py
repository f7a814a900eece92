"""The running chat without its screen: daemon connection, state, turns, model choice."""
