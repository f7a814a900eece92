"""One model's process: states, crashes, usage, and what the API shows of it."""
