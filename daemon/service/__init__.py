"""Runs the daemon as a service of the operating system: unit files, activation, readiness."""
