"""Jinja chat templates: traits, message variants, and the subprocess that renders them."""
