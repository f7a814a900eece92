"""From a request to prompt tokens: chat, infill (FIM), token counts per message."""
