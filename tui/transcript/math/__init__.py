"""Renders TeX maths as text."""
