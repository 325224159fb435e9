"""What a server lists, and what its tools answer, asked without any library.

    survey.py list [--write] RECORDING COMMAND...
    survey.py call CALLS NAME COMMAND...

`list` compares what the server lists with what was recorded of it, or records it anew.
`call` calls every tool as CALLS says under NAME and compares the answers. Arguments that
do not fit are sent too: what a server makes of them is counted, not judged.

The client declares every capability when it lists, because some tools appear for it
alone, and none when it calls, as an importer of tools does.
"""

import collections
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

    def __init__(self, command, capabilities):
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.asked = 0
        client = {"name": "survey", "version": "1"}
        prefix = "io.modelcontextprotocol/"
        meta = {
            prefix + "protocolVersion": REVISIONS[0],
            prefix + "clientInfo": client,
            prefix + "clientCapabilities": capabilities,
        }
        self.extra = {"_meta": meta}
        if "error" in self.ask("server/discover", {}):
            self.extra = {}
            begin = {
                "protocolVersion": REVISIONS[1],
                "capabilities": capabilities,
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


def call(server, name, calls):
    counts = collections.Counter()
    for tool, cases in calls[name].items():
        for case in cases["fits"]:
            expected = case.get("answer") or case.get("fails")
            if expected is None:
                continue
            answer = server.ask("tools/call", {"name": tool, "arguments": case["arguments"]})
            result = answer.get("result", {})
            content = json.dumps(result.get("content"), ensure_ascii=False)
            structured = json.dumps(result.get("structuredContent"), ensure_ascii=False)
            as_told = expected in content or expected in structured
            if not as_told or result.get("isError", False) != ("fails" in case):
                raise SystemExit(f"{name}, {tool}, {case}: {json.dumps(answer)[:500]}")
            counts["answered as expected"] += 1
        for case in cases["misfits"]:
            params = {"name": tool, "arguments": case["arguments"]}
            answer = server.ask("tools/call", params)
            refused = answer.get("result", {"isError": "error" in answer}).get("isError")
            counts["misfits refused" if refused else "misfits taken"] += 1
    print(f"{name}:", ", ".join(f"{count} {what}" for what, count in counts.items()))


def main(what, *rest):
    if what == "list":
        writing = rest[0] == "--write"
        recording, *command = rest[writing:]
        server = Server(command, EVERYTHING)
        compare(pathlib.Path(recording), server.ask("tools/list", {})["result"], writing)
    else:
        calls, name, *command = rest
        server = Server(command, {})
        call(server, name, json.loads(pathlib.Path(calls).read_text(encoding="utf-8")))
    server.end()


main(*sys.argv[1:])
