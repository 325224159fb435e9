"""Holds what the inspector printed to what the tools give."""

import json
import sys

listed, called = (json.load(open(path)) for path in sys.argv[1:])
names = [tool["name"] for tool in listed["tools"]]
assert names[:3] == ["add", "store_note", "hello"], names
assert called["structuredContent"] == {"result": 5}, called
