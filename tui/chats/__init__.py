"""The chat model: messages in a tree, the view of them that is sent, and compactions."""
