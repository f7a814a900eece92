"""Connects other programs to the daemon: edits their settings files and tests the connection."""
