"""Folders of documents: indexed and searched in a process of their own."""
