"""From generated tokens to events: text, reasoning and tool calls."""
