"""What a chat is: messages in a tree, the view of them that is sent, and where they are kept."""
