"""Tools of many shapes, and questions that each of them answers."""

from __future__ import annotations

import json
from typing import Any

from ingle.backends.base.conversation import Tool

_PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "street": {"type": "string"},
        "city": {"type": "string"},
        "country": {"type": "string", "minLength": 2, "maxLength": 2},
    },
    "required": ["city", "country"],
    "additionalProperties": False,
}


def _tool(name: str, description: str, *required: str, **properties: Any) -> Tool:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name, description, json.dumps(schema))


TEXT = {"type": "string"}
TOOLS = [
    _tool("get_time", "Tells the time."),
    _tool(
        "get_weather",
        "Tells the weather of the next days.",
        "city",
        city=TEXT,
        unit={"enum": ["celsius", "fahrenheit"]},
        days={"type": "integer", "minimum": 1, "maximum": 14},
    ),
    _tool(
        "convert",
        "Converts an amount of money.",
        "amount",
        "from",
        "to",
        **{
            "amount": {"type": "number", "exclusiveMinimum": 0},
            "from": {"enum": ["EUR", "USD", "GBP", "JPY"]},
            "to": {"enum": ["EUR", "USD", "GBP", "JPY"]},
        },
    ),
    _tool("write_file", "Writes a text file.", "path", "content", path=TEXT, content=TEXT),
    _tool(
        "run_command",
        "Runs a program.",
        "command",
        command={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 6},
        timeout={"type": "number"},
        background={"type": "boolean"},
    ),
    _tool(
        "send_mail",
        "Sends a mail.",
        "to",
        "subject",
        to={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 4},
        subject=TEXT,
        priority={"enum": ["low", "normal", "high"]},
    ),
    _tool(
        "book_flight",
        "Books a flight.",
        "origin",
        "destination",
        "date",
        origin=TEXT,
        destination=TEXT,
        date={"type": "string", "format": "date"},
        passengers={"type": "integer", "minimum": 1, "maximum": 9},
        window={"type": ["boolean", "null"]},
    ),
    _tool(
        "ship_parcel",
        "Sends a parcel.",
        "receiver",
        "address",
        receiver=TEXT,
        address=_PLACE,
        kilograms={"type": "number", "minimum": 0.1, "maximum": 30},
    ),
    _tool(
        "plot",
        "Draws points.",
        "points",
        points={
            "type": "array",
            "minItems": 1,
            "maxItems": 6,
            "items": {
                "type": "object",
                "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                "required": ["x", "y"],
                "additionalProperties": False,
            },
        },
        title=TEXT,
    ),
    _tool(
        "set_lights",
        "Sets the lights of a room.",
        "room",
        "state",
        room={"enum": ["kitchen", "bedroom", "hall"]},
        state={
            "anyOf": [
                {"enum": ["on", "off"]},
                {
                    "type": "object",
                    "properties": {"percent": {"type": "integer", "minimum": 0, "maximum": 100}},
                    "required": ["percent"],
                    "additionalProperties": False,
                },
            ]
        },
    ),
    _tool(
        "search_code",
        "Searches a repository.",
        "pattern",
        pattern=TEXT,
        languages={
            "type": "array",
            "items": {"enum": ["python", "rust", "go", "c"]},
            "maxItems": 4,
        },
        case_sensitive={"type": "boolean"},
    ),
    _tool(
        "query",
        "Asks a data base.",
        "table",
        "filter",
        table={"enum": ["users", "orders", "items"]},
        filter={"$ref": "#/$defs/filter"},
        limit={"type": "integer", "minimum": 1, "maximum": 1000},
    ),
]
_DEFS: dict[str, Any] = {
    "filter": {
        "type": "object",
        "properties": {
            "column": TEXT,
            "operator": {"enum": ["=", "<", ">", "like"]},
            "value": {"type": ["string", "number"]},
        },
        "required": ["column", "operator", "value"],
        "additionalProperties": False,
    }
}
TOOLS[-1] = Tool(
    "query",
    TOOLS[-1].description,
    json.dumps({**json.loads(TOOLS[-1].parameters), "$defs": _DEFS}),
)

QUESTIONS = """
What time is it?
Is it already past noon?
Tell me the time, please.
How late is it right now?
Do I still have time before eight?
What does the clock say?
Check the time for me.
Is it morning or evening?
What is the weather in Paris?
Will it rain in Oslo during the next 3 days?
How hot does it get in Phoenix this week, in Fahrenheit?
Do I need a coat in Reykjavik tomorrow?
Weather in São Paulo, in Celsius.
Give me a 10 day forecast for Tokyo.
Is there snow in Innsbruck?
How windy is Wellington?
How many dollars are 250 euros?
Convert 99.95 pounds to yen.
I have 10000 yen. What is that in euros?
What are 3.5 dollars worth in Britain?
Change 1200 USD into EUR.
Turn 77 GBP into dollars.
My hotel costs 18000 yen a night; how many dollars?
How much is half a euro in pounds?
Save "hello" to notes.txt.
Write a file todo.md with three things to buy.
Create hello.py which prints the numbers from 1 to 10.
Make an empty file called .gitkeep.
Put a JSON object with my name, Ada, into me.json.
Write a haiku about the sea to haiku.txt.
Create a shell script backup.sh that copies /home to /backup.
Write an HTML page index.html with the heading "It's \"fine\"".
List the files in /tmp.
Run the tests with pytest and stop after 60 seconds.
Show the last 20 lines of /var/log/syslog.
Start the web server in the background.
Which version of Python is installed?
Count the lines in README.md.
Ping example.org three times.
Compile main.c with gcc into a.out.
Mail bob@example.org that the meeting is cancelled.
Send a reminder about the rent to ann@example.org and tim@example.org.
Write to support@example.org: my order has not come, it is urgent.
Tell carol@example.org happy birthday.
Mail the team at team@example.org that the build is green.
Ask dave@example.org for the slides, no hurry.
Invite eve@example.org and mallory@example.org to lunch.
Warn ops@example.org that the disk is full!
Book a flight from Berlin to Rome on 2025-07-01.
I want to fly from Boston to Denver on March 3rd 2026, by the window.
Two tickets from Oslo to Bergen for 2025-12-24.
Get me to Lisbon from Madrid on 2025-10-05, any seat.
Fly a family of four from London to Malta on 2026-08-15.
One seat from Zurich to Vienna on the 9th of May 2026.
Book Tokyo to Sapporo on 2026-02-11 for 3 people.
I need to be in Seattle on 2025-11-30; I am in Austin.
Send a parcel to Ann Lee, 5 Hill Road, Leeds, GB.
Ship 2.5 kilograms to Jean Petit in Lyon, France.
A package for Otto Kern, Ringstr. 12, Graz, Austria, weighs 800 grams.
Send my old books, 12 kg, to Maria Silva in Porto, Portugal.
Mail this box to Ken Ito in Osaka, Japan.
Ship a 30 kilogram crate to Lars Berg, Harbour 1, Bergen, Norway.
Post a letter to Zoe in Athens, Greece.
A parcel of 1 kg for Paul Novak, Main Square 3, Brno, Czech Republic.
Draw the points (1, 2), (3, 4) and (5, 6).
Plot y = x squared for x from 0 to 4.
Show a single point at the origin, titled "Start".
Draw a triangle with corners (0,0), (4,0) and (2,3).
Plot the temperatures 20.5, 21 and 19.75 of three days.
Plot (-1.5, 2.25).
Draw five points on a line with the title "Growth".
Make a chart of 10, 20, 15, 30.
Turn on the light in the kitchen.
Dim the bedroom to 30 percent.
Lights off in the hall!
Make the kitchen half as bright.
It is too dark in the hall.
Set the bedroom lights to 5%.
Switch the bedroom light off.
Full light in the kitchen, please.
Where is the function parse_header used?
Find TODO comments in the Python and Rust code.
Search for "malloc(" in C files, with exact case.
Where do we handle timeouts?
Find all uses of the class Scheduler.
Look for the text "it's \\ here" in Go code.
Which files mention utf-8?
Search for main in all languages.
Show the users whose name is Ada.
Which orders cost more than 100?
Find items whose title contains the word lamp, at most 5.
Give me 10 users older than 65.
Orders with the status open.
All items that cost less than 2.50.
Which users live in Paris?
The first 100 orders from the customer 4711.
Do whatever you like.
Hello!
asdf ghjkl 12345
Thanks, that is all.
""".strip().splitlines()
