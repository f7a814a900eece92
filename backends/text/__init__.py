"""Text processing of requests and answers: chat templates, tokenisation, parsing, grammars."""
