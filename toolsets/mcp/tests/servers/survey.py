"""What a server lists, asked without any library.

    survey.py [--write] RECORDING COMMAND...

Compares what the server lists with what was recorded of it, or records it anew. The
client declares every capability, because some tools appear for it alone.
"""

import json
import pathlib
import subprocess
import sys

REVISIONS = ["2026-07-28", "2025-11-25"]
EVERYTHING = {
    "roots": {},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}


class Server:
    """A child process in the newest revision it speaks."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.asked = 0
        client = {"name": "survey", "version": "1"}
        prefix = "io.modelcontextprotocol/"
        meta = {
            prefix + "protocolVersion": REVISIONS[0],
            prefix + "clientInfo": client,
            prefix + "clientCapabilities": EVERYTHING,
        }
        self.extra = {"_meta": meta}
        if "error" in self.ask("server/discover", {}):
            self.extra = {}
            begin = {
                "protocolVersion": REVISIONS[1],
                "capabilities": EVERYTHING,
                "clientInfo": client,
            }
            self.ask("initialize", begin)
            self.write({"method": "notifications/initialized"})

    def ask(self, method, params):
        """The answer to a request, and nothing of what comes before it."""
        self.asked += 1
        self.write({"id": self.asked, "method": method, "params": {**params, **self.extra}})
        for line in self.child.stdout:
            message = json.loads(line)
            if message.get("id") == self.asked and "method" not in message:
                return message
        raise SystemExit(f"{method}: the server ended")

    def write(self, message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.child.stdin.flush()

    def end(self):
        """Not by closing its input: a server that asked us something waits for a minute."""
        self.child.terminate()
        self.child.wait()


def compare(recording, now, writing):
    now = json.dumps(now, indent=2, ensure_ascii=False) + "\n"
    if writing:
        recording.write_text(now, encoding="utf-8")
    elif now != recording.read_text(encoding="utf-8"):
        raise SystemExit(f"{recording.name}: the server lists something else; record it anew")
    print(f"{recording.name}: {len(json.loads(now)['tools'])} tools, as recorded")


def main(*rest):
    writing = rest[0] == "--write"
    recording, *command = rest[writing:]
    server = Server(command)
    compare(pathlib.Path(recording), server.ask("tools/list", {})["result"], writing)
    server.end()


main(*sys.argv[1:])
