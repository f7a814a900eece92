"""What a prompt is made of while it is written: chips, mentions, completion, templates."""
