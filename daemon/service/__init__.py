"""The daemon as a service of the system: its files, and what the system hands to it."""
