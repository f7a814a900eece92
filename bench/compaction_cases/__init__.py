"""Chats with known facts in them, questions about those, and how answers are graded."""
