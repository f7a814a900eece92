"""Default evaluation prompts: everyday questions, code, arithmetic, other languages."""

from __future__ import annotations

DEFAULT_PROMPTS = (
    "Why is the sky blue, and why is it red in the evening?",
    "Write a Python function that merges two sorted lists into one sorted list.",
    "Explain the difference between TCP and UDP to someone who is new to networks.",
    "A train leaves at 14:35 and arrives at 17:20. How long does it take? Show the steps.",
    "Give me three ideas for a birthday dinner for six people, one of them vegetarian.",
    "Write a short, friendly mail that moves a meeting from Monday to Wednesday at 10.",
    "Summarise in two sentences what photosynthesis is.",
    "Translate into German: The meeting was moved to next Tuesday because of the holiday.",
    "Explique en français ce qu'est une hypothèque, en trois phrases.",
    "What does this shell command do?  find . -name '*.log' -mtime +7 -delete",
    "Which is larger, 3/7 or 0.43? Say how you know.",
    "Write the first eight lines of a story that begins in an empty lighthouse.",
)
