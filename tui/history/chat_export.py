"""Exports a chat to a file: Markdown and HTML of the chosen branch, or all of it as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from ..chats.chat import Chat
from ..chats.message import Message, ToolStep
from ..text.relative_dates import local_time
from ..text.terminal_safe_text import clean
from .database.history_errors import HistoryError
from .ingle_json import export_json

FORMATS = ("md", "json", "html")
_UNFIT = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)\Z")


def parse_export(argument: str) -> tuple[str, str]:
    """Parse `/export md|json|html [PATH]` into format and path; either may be omitted."""
    first, _, rest = argument.strip().partition(" ")
    path = rest.strip()
    if first in FORMATS:
        return first, path
    path = argument.strip()
    ending = path.rpartition(".")[2].lower()
    return (ending if ending in FORMATS else "md"), path


def write_export(chat: Chat, kind: str, path: str, folder: Path) -> Path:
    """Write the chat; return the path. Raises `HistoryError`.

    Without a path the file is named by the title in `folder`, with a number if the name is taken; a
    folder as path replaces `folder`.
    """
    target = folder / Path(path.strip("\"'")).expanduser() if path else folder
    content = _EXPORTERS[kind](chat).encode("utf-8", "replace")
    try:
        if not path or target.is_dir():
            return _write_beside(target, file_name(chat.title), kind, content)
        _write_new(target, content)
    except FileExistsError as error:
        raise HistoryError(f"{target} exists already.", "Give another name.") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise HistoryError(f"{target} cannot be written: {reason}.") from error
    return target


def file_name(title: str) -> str:
    """Return a title as a file name that every file system accepts."""
    name = _UNFIT.sub("-", title).strip("-. ")[:60].rstrip("-. ")
    return f"{name or 'chat'}_" if _RESERVED.match(name) else name or "chat"


def _write_beside(folder: Path, name: str, kind: str, content: bytes) -> Path:
    number = 1
    while True:
        target = folder / (f"{name}.{kind}" if number == 1 else f"{name}-{number}.{kind}")
        try:
            _write_new(target, content)
        except FileExistsError:
            number += 1
        else:
            return target


def _write_new(target: Path, content: bytes) -> None:
    """Create a new file atomically."""
    with target.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            target.unlink(missing_ok=True)
            raise


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def export_markdown(chat: Chat) -> str:
    """Return the chosen branch as Markdown, with front matter; reasoning is folded."""
    parts = [_front_matter(chat), f"# {one_line(chat.title) or 'Untitled'}"]
    if chat.settings.system:
        parts.append("## System\n\n" + clean(chat.settings.system).strip())
    parts += [_message(chat, message) for message in _shown(chat)]
    return "\n\n".join(parts) + "\n"


def iso_time(stamp: float) -> str:
    """Return a time with its zone, "" for an invalid time."""
    time = local_time(stamp)
    return "" if time is None else time.isoformat(timespec="seconds")


def _minute(stamp: float) -> str:
    """Return a time to the minute, with its zone, to be read by people."""
    time = local_time(stamp)
    return "" if time is None else time.isoformat(sep=" ", timespec="minutes")


def models_of(chat: Chat) -> list[str]:
    """Return the models that answered on the chosen branch, in order."""
    return list(dict.fromkeys(message.model for message in chat.path if message.model))


def message_heading(chat: Chat, message: Message) -> tuple[str, str]:
    """Return the name of the author, and the facts: time, position among siblings, ending."""
    step = message.facts.step
    if step is not None:
        who = f"Tool {step.call.name}"
    else:
        who = "You" if message.role == "user" else message.model or "Answer"
    siblings = chat.siblings(message)
    place = f"{siblings.index(message) + 1} of {len(siblings)}; the JSON export has all"
    ending = "cut off at its length limit" if message.ending == "length" else message.ending
    facts = [
        _minute(message.created),
        place if len(siblings) > 1 else "",
        "" if ending == "answered" else ending,
        "" if step is None else one_line(step.summary),
    ]
    return one_line(who), " · ".join(fact for fact in facts if fact)


def _shown(chat: Chat) -> list[Message]:
    """Return the chosen branch without answers that are calls only; their results name these."""
    return [m for m in chat.path if m.text.strip() or m.reasoning.strip() or not m.facts.calls]


def _step_text(step: ToolStep, result: str) -> str:
    """Return the arguments of a call, the diff of an edit, and the result."""
    parts = (step.call.arguments, step.diff, result)
    return clean("\n\n".join(part.strip() for part in parts if part.strip()))


def _fenced(text: str) -> str:
    longest = max((len(mark) for mark in _FENCE.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _front_matter(chat: Chat) -> str:
    last = max((message.created for message in chat.path), default=chat.created)
    fields = {
        "title": chat.title,
        "models": models_of(chat),
        "created": iso_time(chat.created),
        "updated": iso_time(last),
        "folder": chat.settings.folder,
        "messages": len(chat.path),
        "id": chat.id,
    }
    # JSON is valid YAML, whatever characters a title contains.
    lines = [
        f"{name}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in fields.items()
        if value not in ("", [])
    ]
    return "\n".join(["---", *lines, "---"])


def _message(chat: Chat, message: Message) -> str:
    who, facts = message_heading(chat, message)
    parts = [f"## {who}", f"*{facts}*"]
    if message.reasoning.strip():
        thoughts = escape(clean(message.reasoning).strip(), quote=False)
        parts.append(f"<details>\n<summary>Reasoning</summary>\n\n{thoughts}\n\n</details>")
    for attachment in message.attachments:
        if attachment.picture:
            parts.append(f"**{one_line(attachment.name)}** (a picture)")
            continue
        text = _fenced(clean(attachment.text).rstrip())
        parts.append(f"**{one_line(attachment.name)}**\n\n{text}")
    if message.facts.step is not None:
        parts.append(_fenced(_step_text(message.facts.step, message.content)))
    elif message.content.strip():
        parts.append(clean(message.content).strip())
    return "\n\n".join(parts)


def one_line(text: str) -> str:
    """Return clean text with a single space for each run of white space."""
    return " ".join(clean(text).split())


# Nothing is fetched or executed, whatever a message contains.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
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
    title = escape(one_line(chat.title) or "Untitled")
    facts = " · ".join([_minute(chat.created), *models_of(chat)])
    parts = [
        "<!doctype html>",
        '<html lang="">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{title}</title><style>{_STYLE}</style></head>",
        f"<body><header><h1>{title}</h1><p>{escape(one_line(facts))}</p></header>",
    ]
    if chat.settings.system:
        prompt = escape(clean(chat.settings.system))
        parts.append(f"<details><summary>System prompt</summary><pre>{prompt}</pre></details>")
    parts += [_article(chat, message, renderer.render) for message in _shown(chat)]
    parts.append("</body></html>")
    return "\n".join(parts) + "\n"


def _article(chat: Chat, message: Message, render: Callable[[str], str]) -> str:
    who, facts = map(escape, message_heading(chat, message))
    parts = [
        f'<article class="{message.role}"><h2>{who}</h2>',
        f'<p class="facts">{facts}</p>',
    ]
    if message.reasoning.strip():
        thoughts = render(clean(message.reasoning))
        parts.append(f"<details><summary>Reasoning</summary>{thoughts}</details>")
    for attachment in message.attachments:
        name, text = escape(one_line(attachment.name)), escape(clean(attachment.text))
        if attachment.picture.startswith("data:image/"):
            parts.append(f'<p><img alt="{name}" src="{escape(attachment.picture)}"></p>')
            continue
        parts.append(f"<details><summary>{name}</summary><pre>{text}</pre></details>")
    if message.facts.step is not None:
        text = escape(_step_text(message.facts.step, message.content))
        parts.append(f"<details><summary>Result</summary><pre>{text}</pre></details></article>")
    else:
        parts.append(render(clean(message.content)) + "</article>")
    return "\n".join(parts)


_EXPORTERS = {"md": export_markdown, "json": export_json, "html": export_html}
