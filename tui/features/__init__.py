"""What the chat can do, one module a capability; the screen passes them commands and events."""
