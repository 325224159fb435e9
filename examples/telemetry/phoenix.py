#!/usr/bin/env python3
"""Sends the spans of the example `telemetry`, a run and an eval, to a real Phoenix, and checks what
Phoenix shows.

    python3 examples/telemetry/phoenix.py FOLDER

FOLDER gets a virtual environment with `arize-phoenix` (about 1 GB, once) and the data of the server.
The server listens on 127.0.0.1 only, and ends with this script. With KEEP=1 it goes on until Ctrl-C,
so that you can look at it.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Phoenix binds its gRPC port to all interfaces. This binds it to the loopback interface.
SERVE = """
import sys
from grpc.aio import _server
add = _server.Server.add_insecure_port
_server.Server.add_insecure_port = lambda self, address: add(self, address.replace("[::]", "127.0.0.1"))
from phoenix.server.main import main
sys.argv = ["phoenix", "serve"]
main()
"""
CHAT, GUIDE = "chat gpt-4.1", "chat gpt-4.1-mini"
# Name, kind, tokens read and written, whether it failed, and what is below it.
WANTED = ("invoke_agent concierge", "AGENT", (2900, 192), False, [
    (CHAT, "LLM", (480, 52), False, []),
    ("execute_tool get_weather", "TOOL", None, False, []),
    ("execute_tool ask_guide", "TOOL", None, False, [
        ("invoke_agent ask_guide", "AGENT", (475, 55), False, [
            (GUIDE, "LLM", (210, 24), False, []),
            ("execute_tool find_museums", "TOOL", None, False, []),
            (GUIDE, "LLM", (265, 31), False, []),
        ]),
    ]),
    (CHAT, "LLM", (590, 22), False, []),
    ("execute_tool book_table", "TOOL", None, True, []),
    (CHAT, "LLM", (655, 22), False, []),
    ("execute_tool book_table", "TOOL", None, False, []),
    (CHAT, "LLM", (700, 41), False, []),
])

# An eval of the same agent: the attempt around it, and a span for each grade.
GRADES = {"dines": ("pass", 1), "in two rounds": ("fail", 0)}
EVALUATED = [WANTED] + [(f"evaluate {name}", "UNKNOWN", None, False, []) for name in GRADES]


def port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as reply:
        return json.load(reply)


def wait_for(what, seconds, work):
    end = time.monotonic() + seconds
    while True:
        try:
            found = work()
            if found:
                return found
        except OSError:
            pass
        if time.monotonic() > end:
            sys.exit(f"{what} after {seconds} s")
        time.sleep(0.5)


def tree(span, below):
    counts = span["attributes"]
    tokens = counts.get("llm.token_count.prompt"), counts.get("llm.token_count.completion")
    children = sorted(below.get(span["context"]["span_id"], []), key=lambda it: it["start_time"])
    return (
        span["name"],
        span["span_kind"],
        None if tokens == (None, None) else tokens,
        span["status_code"] == "ERROR",
        [tree(child, below) for child in children],
    )


def main():
    folder = Path(sys.argv[1]).resolve()
    python = folder / "venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "arize-phoenix"], check=True)
    subprocess.run(
        ["cargo", "build", "-q", "-p", "toolwright-examples", "--example", "telemetry"],
        cwd=ROOT, check=True,
    )
    http, data = port(), folder / "data"
    data.mkdir(exist_ok=True)
    settings = {
        "PHOENIX_WORKING_DIR": str(data),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    url, run = f"http://127.0.0.1:{http}", f"run-{time.time_ns()}"
    with open(folder / "phoenix.log", "w") as log:
        server = subprocess.Popen(
            [python, "-c", SERVE], cwd=data, env=os.environ | settings, stdout=log, stderr=log
        )
    try:
        wait_for("Phoenix does not answer", 120, lambda: get(f"{url}/v1/projects"))
        subprocess.run(
            [ROOT / "target/debug/examples/telemetry", run],
            env=os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": url}, check=True,
        )

        def spans():
            found = get(f"{url}/v1/projects/default/spans?limit=100")["data"]
            # The spans of the graders have no id of the run.
            traces = {
                it["context"]["trace_id"]
                for it in found
                if it["attributes"].get("gen_ai.conversation.id") == run
            }
            found = [it for it in found if it["context"]["trace_id"] in traces]
            return found if len(found) >= 13 + 16 else None

        found = wait_for("Phoenix does not have all spans", 30, spans)
        ids, below = {span["context"]["span_id"] for span in found}, {}
        for span in found:
            below.setdefault(span.get("parent_id"), []).append(span)
        roots = [span for span in found if span.get("parent_id") not in ids]
        roots.sort(key=lambda span: span["start_time"])
        trees = [tree(span, below) for span in roots]
        if trees != [WANTED, (f"eval mondays of {run}: Oslo", "UNKNOWN", None, False, EVALUATED)]:
            sys.exit(f"Phoenix shows another tree: {json.dumps(trees, indent=1)}")
        events = [it for it in roots[1]["events"] if it["name"] == "gen_ai.evaluation.result"]
        shown = {
            it["attributes"]["gen_ai.evaluation.name"]: (
                it["attributes"]["gen_ai.evaluation.score.label"],
                it["attributes"]["gen_ai.evaluation.score.value"],
            )
            for it in events
        }
        if shown != GRADES:
            sys.exit(f"Phoenix shows other grades: {json.dumps(events, indent=1)}")
        failed = [span for span in found if span["status_code"] == "ERROR"][0]
        print(f"{len(found)} spans as expected; failed: {failed['name']}: {failed['status_message']}")
        if os.environ.get("KEEP"):
            print(f"{url}/projects (Ctrl-C ends it)")
            server.wait()
    finally:
        server.terminate()
        server.wait()


main()
