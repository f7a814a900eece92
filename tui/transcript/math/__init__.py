"""TeX maths as text."""
