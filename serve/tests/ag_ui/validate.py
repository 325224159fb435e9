"""Validates answers with ag-ui-validate.

python validate.py FOLDER   FOLDER has one file of events for each answer
"""

import collections
import json
import pathlib
import sys

from ag_ui_validate import create_validator

# Updates have no time, and a call without a text before it makes its own message.
ALLOWED = {"AGUI902", "AGUI208"}
# The generated calls have arguments that are not JSON, as some models write them.
OF_GENERATED = {"AGUI204"}

counts = collections.Counter()
wrong = []
files = sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl"))
for file in files:
    allowed = ALLOWED if file.name.startswith("service") else ALLOWED | OF_GENERATED
    validator = create_validator()
    for line in file.read_text().splitlines():
        validator.feed(json.loads(line))
    validator.finalize()
    report = validator.report()
    assert not report.internal_errors, report.internal_errors
    for found in report.diagnostics:
        counts[found.rule] += 1
        if found.rule not in allowed:
            wrong.append(f"{file}: {found.rule} {found.message}")
print(f"ag-ui-validate: {len(files)} answers, {dict(counts)}")
sys.exit("\n".join(wrong[:20]) if wrong else 0)
