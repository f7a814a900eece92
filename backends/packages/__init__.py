"""Packages of the engines: what each needs, where they are installed, and how they get there."""
