"""Descriptors of the engines, which load no native code."""
