"""One model's process: states, crashes, usage, and its description in the API."""
