"""The terminal and its programs.

Clipboard, external editor, key driver, exit signals and render rate.
"""
