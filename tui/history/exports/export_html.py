"""Exports the current branch as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from ...chats.chat import Chat
from ...chats.message import Message
from ...text.terminal_safe_text import clean
from .export_markdown import ending_note, iso_time, models_of, sibling_note

# Nothing is fetched or executed, whatever a message contains.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --ink: #2c2622; --paper: #faf6ef; --muted: #71675b;
  --edge: #cdbfac; --ground: #f1eadf; --you: #a8501c; --model: #2f6d78; }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd6cb; --paper: #151312;
  --muted: #958c80; --edge: #4a3f36; --ground: #1e1b19; --you: #e39a62; --model: #8fb3b8; } }
body { margin: 0 auto; max-width: 46rem; padding: 2rem 1.2rem 4rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.6 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; }
header p, .facts { color: var(--muted); font-size: .85rem; }
article { margin-top: 2rem; overflow-wrap: anywhere; }
article > h2 { font-size: 1rem; margin: 0; color: var(--model); }
article.user > h2 { color: var(--you); }
.facts { margin: 0 0 .5rem; }
pre { background: var(--ground); padding: .8rem; overflow-x: auto; }
code { font: .9em ui-monospace, monospace; background: var(--ground); }
pre code { background: none; }
details { border-left: 2px solid var(--edge); padding-left: .8rem; color: var(--muted); }
table { border-collapse: collapse; } th, td { border: 1px solid var(--edge); padding: .2rem .6rem; }
blockquote { margin-left: 0; padding-left: .8rem; border-left: 2px solid var(--edge); }
a { color: var(--model); }
@media print { body { max-width: none; } }
"""


def export_html(chat: Chat) -> str:
    """Return the chosen branch as a page: dark and light, without scripts, everything escaped."""
    from markdown_it import MarkdownIt

    # No raw HTML, and pictures only as links: the page makes no network requests.
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.disable("image")
    title = escape(_line(chat.title) or "Untitled")
    facts = " · ".join([iso_time(chat.created), *models_of(chat)])
    parts = [
        "<!doctype html>",
        '<html lang="">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{title}</title><style>{_STYLE}</style></head>",
        f"<body><header><h1>{title}</h1><p>{escape(_line(facts))}</p></header>",
    ]
    if chat.settings.system:
        prompt = escape(clean(chat.settings.system))
        parts.append(f"<details><summary>System prompt</summary><pre>{prompt}</pre></details>")
    parts += [_article(chat, message, renderer.render) for message in chat.path]
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _article(chat: Chat, message: Message, render: Callable[[str], str]) -> str:
    who = "You" if message.role == "user" else message.model or "Answer"
    facts = [iso_time(message.created), sibling_note(chat, message), ending_note(message)]
    told = escape(" · ".join(fact for fact in facts if fact))
    parts = [
        f'<article class="{message.role}"><h2>{escape(_line(who))}</h2>',
        f'<p class="facts">{told}</p>',
    ]
    if message.reasoning.strip():
        thoughts = render(clean(message.reasoning))
        parts.append(f"<details><summary>Reasoning</summary>{thoughts}</details>")
    for attachment in message.attachments:
        name, text = escape(_line(attachment.name)), escape(clean(attachment.text))
        parts.append(f"<details><summary>{name}</summary><pre>{text}</pre></details>")
    parts.append(render(clean(message.content)) + "</article>")
    return "\n".join(parts)


def _line(text: str) -> str:
    return " ".join(clean(text).split())
