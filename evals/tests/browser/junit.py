"""Reads JUnit XML as a CI server does, and checks its texts. See run.sh."""

import json
import re
import sys

from junitparser import Error, Failure, JUnitXml, Skipped

folder = sys.argv[1]
HIDDEN = re.compile(r"[^\n -~\xa0-\ufffd]|[\u202e\u200b-\u200f]")


def visible(text):
    """The text as a report has it: with the escapes of JSON for hidden characters."""
    return HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def attempts(name):
    suites = list(JUnitXml.fromfile(f"{folder}/{name}.xml"))
    assert len(suites) == 1, suites
    suite, tests = suites[0], list(suites[0])
    kinds = [type(result) for test in tests for result in test.result]
    counts = (suite.tests, suite.failures, suite.errors, suite.skipped)
    found = (len(tests), kinds.count(Failure), kinds.count(Error), kinds.count(Skipped))
    assert counts == found, (counts, found)
    return suite, tests


suite, [test] = attempts("hostile")
report = json.load(open(f"{folder}/hostile.json"))
attempt = report["outcomes"][0]
assert suite.name == test.classname == visible(report["name"]), suite.name
assert test.name == visible(attempt["case"]), test.name
[error] = test.result
reasons = zip(report["graders"], attempt["grades"])
expected = "\n".join(f"{grader}: {grade['reason']}" for grader, grade in reasons)
assert error.text == visible(expected), (error.text, visible(expected))

suite, tests = attempts("long")
assert len(tests) == 1000 and len({test.name for test in tests}) == 1000
assert all(test.time >= 0 for test in tests)
print("ok   JUnit XML: 1,001 attempts are read, and hostile texts come back")
