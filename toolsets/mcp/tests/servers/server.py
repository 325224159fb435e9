"""A server on the official Python SDK, with the schemas that Python's types become.

    server.py [--http PORT] [--page SIZE] [--handshake]

Speaks over standard input and output, or over HTTP on 127.0.0.1 (port 0: any free one),
and then prints its address once it listens. Lists its tools in pages if a page size is given.
Told so, it knows only the revisions that begin with a handshake, as older servers do.
Every tool answers from its arguments alone, so that what comes back can be compared with
what was sent.
"""

import argparse
import asyncio
import base64
import os
import socket
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Annotated, Literal, Optional, Union
from uuid import UUID

import uvicorn
from mcp import MCPError
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

server = MCPServer("python", version="1.0.0", log_level="WARNING")
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)


class Colour(str, Enum):
    red = "red"
    green = "green"


class Priority(int, Enum):
    low = 1
    high = 2


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    city: str = "Kyiv"
    postcode: Annotated[str, Field(pattern="^[0-9]{5}$")]


class Person(BaseModel):
    name: Annotated[str, Field(min_length=1, description="As on the letter box.")]
    address: Address
    former: list[Address] = []


class Tree(BaseModel):
    """A node and what hangs below it."""

    label: str
    children: list["Tree"] = []


class Folder(BaseModel):
    name: str
    entries: dict[str, "Entry"] = {}


class File(BaseModel):
    size: Annotated[int, Field(ge=0)]


class Entry(BaseModel):
    """Folders hold entries and entries hold folders."""

    folder: Optional[Folder] = None
    file: Optional[File] = None


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: Annotated[float, Field(gt=0)]


class Rectangle(BaseModel):
    kind: Literal["rectangle"]
    width: float
    height: float


Shape = Annotated[Union[Circle, Rectangle], Field(discriminator="kind")]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    colour: Colour = Field(default=Colour.red, description="A default beside a reference.")
    priority: Priority = Priority.low
    address: Address = Field(
        default=Address(street="Main", postcode="01001"), title="The address"
    )


class Summary(BaseModel):
    words: int
    longest: Optional[str] = None


@server.tool(annotations=READS)
def ping_pong() -> str:
    """Answer pong. Takes nothing."""
    return "pong"


@server.tool(annotations=READS)
def add(a: int, b: int = 0) -> int:
    """Add two numbers: a plain number comes back."""
    return a + b


@server.tool(annotations=READS, title="Summarise a text")
def summarise(text: str) -> Summary:
    """Count the words of a text: a model comes back."""
    words = text.split()
    return Summary(words=len(words), longest=max(words, key=len, default=None))


@server.tool(structured_output=False)
def shout(text: str) -> str:
    """Say it louder: text comes back, and no output schema is declared."""
    return text.upper()


@server.tool()
def store_person(person: Person) -> Person:
    """Take a model with models inside."""
    return person


@server.tool()
def count_nodes(tree: Tree) -> int:
    """Take a model that holds itself."""
    return 1 + sum(count_nodes(child) for child in tree.children)


@server.tool()
def prune(tree: Tree) -> Tree:
    """Give a tree back without what hangs below its first level."""
    return Tree(label=tree.label, children=[Tree(label=child.label) for child in tree.children])


@server.tool()
def weigh(entry: Entry) -> int:
    """Take two models that hold each other, in a map."""
    below = entry.folder.entries.values() if entry.folder else []
    return (entry.file.size if entry.file else 0) + sum(weigh(each) for each in below)


@server.tool()
def area(shape: Shape) -> float:
    """Take one of several models, told apart by a field."""
    if isinstance(shape, Circle):
        return 3 * shape.radius**2
    return shape.width * shape.height


@server.tool()
def scale(shapes: list[Shape], factor: float = 2.0) -> list[Shape]:
    """Give a list of such models back."""
    larger = []
    for shape in shapes:
        if isinstance(shape, Circle):
            larger.append(Circle(kind="circle", radius=shape.radius * factor))
        else:
            larger.append(
                Rectangle(
                    kind="rectangle", width=shape.width * factor, height=shape.height * factor
                )
            )
    return larger


@server.tool()
def find(key: str | int, limit: Optional[int] = None, deep: Optional[bool] = True) -> str:
    """Take a text or a number, and fields that may be null."""
    return f"{type(key).__name__} {key} {limit} {deep}"


@server.tool()
def nearest(place: Address | str | None) -> str | None:
    """Take a model, a text or nothing, and give a text or nothing."""
    return place.city if isinstance(place, Address) else place


@server.tool()
def register(people: dict[str, Person]) -> dict[str, int]:
    """Take a map of models and give a map of numbers."""
    return {name: len(person.former) for name, person in people.items()}


@server.tool()
def configure(settings: Settings, level: Literal["low", "high"] = "low") -> str:
    """Take enums of texts and of numbers, with defaults beside references."""
    return f"{settings.colour.value} {settings.priority.value} {settings.address.city} {level}"


@server.tool()
def plan(
    day: date,
    at: Optional[datetime] = None,
    takes: timedelta = timedelta(minutes=30),
    id: Optional[UUID] = None,
) -> str:
    """Take dates, times and identifiers."""
    return f"{day.isoformat()} {takes.total_seconds():.0f}"


@server.tool()
def transpose(rows: Annotated[list[list[float]], Field(min_length=1)]) -> list[list[float]]:
    """Take a list of lists."""
    return [list(column) for column in zip(*rows)]


@server.tool()
def corners(point: tuple[int, str], unique: set[str] = set()) -> str:
    """Take a tuple and a set."""
    return f"{point[0]} {point[1]} {sorted(unique)}"


@server.tool()
def anything(value: object, options: dict = {}) -> str:
    """Take what is described no further."""
    return f"{value} {options}"


@server.tool()
def fail(how: Literal["expected", "bug"]) -> str:
    """Fail, as a tool that meant to or as one that did not."""
    if how == "expected":
        raise ToolError("there is no such thing; try another")
    raise RuntimeError("secret of the server")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
async def sleep(milliseconds: Annotated[int, Field(ge=0, le=600_000)]) -> str:
    """Answer later."""
    await asyncio.sleep(milliseconds / 1000)
    return f"slept {milliseconds}"


@server.tool(annotations=READS)
def draw() -> Image:
    """Give a picture of one pixel."""
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
        "AABJRU5ErkJggg=="
    )
    return Image(data=base64.b64decode(pixel), format="png")


@server.tool()
async def tell(times: int, ctx: Context) -> str:
    """Report progress as often as asked for."""
    for done in range(1, times + 1):
        await ctx.report_progress(done, times, f"step {done}")
    return f"told {times}"


@server.tool(
    annotations=ToolAnnotations(
        title="Remove all of it",
        read_only_hint=False,
        destructive_hint=True,
        idempotent_hint=True,
        open_world_hint=False,
    )
)
def remove(name: str) -> None:
    """Change something, and give nothing back."""


@server.tool()
async def add_tool(name: str, ctx: Context) -> str:
    """Add a tool of this name, and tell that the list is another one."""

    def added() -> str:
        """Was not there at first."""
        return name

    server.add_tool(added, name=name)
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return f"added {name}"


@server.tool()
def end(code: int = 3) -> str:
    """End the process without an answer."""
    os._exit(code)


async def paged(ctx, call_next):
    """Lists tools in pages: the SDK knows cursors, and its server uses none."""
    result = await call_next(ctx)
    if ctx.method == "tools/list":
        cursor = (ctx.params or {}).get("cursor", "page 0")
        if cursor not in [f"page {number}" for number in range(len(result["tools"]))]:
            raise MCPError(INVALID_PARAMS, f"there is no cursor {cursor!r}")
        number = int(cursor.removeprefix("page "))
        here = slice(number * page, (number + 1) * page)
        if here.stop < len(result["tools"]):
            result["nextCursor"] = f"page {number + 1}"
        result["tools"] = result["tools"][here]
    return result


async def without_discovery(ctx, call_next):
    """Makes clients start with the handshake. The SDK has no setting for it."""
    if ctx.method == "server/discover":
        raise MCPError(METHOD_NOT_FOUND, "Method not found")
    return await call_next(ctx)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int, metavar="PORT")
    parser.add_argument("--page", type=int, metavar="SIZE")
    parser.add_argument("--handshake", action="store_true")
    options = parser.parse_args()
    if page := options.page:
        server.middleware.append(paged)
    if options.handshake:
        server.middleware.append(without_discovery)
    if options.http is None:
        server.run()
    else:
        listener = socket.create_server(("127.0.0.1", options.http))
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        app = server.streamable_http_app(host="127.0.0.1")
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
