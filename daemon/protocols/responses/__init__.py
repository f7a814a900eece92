"""OpenAI's Responses API: typed items in and out, stored conversations, background runs."""
