"""Families some of whose layers have a recurrent state, one a module. Plug-in point."""
