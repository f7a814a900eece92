"""The transcript's scroll view: layout, line cache, block navigation, selection, search."""
