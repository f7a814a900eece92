"""The full-screen program.

App, stylesheet, chat screen, turn runner, feature list and first frame.
"""
