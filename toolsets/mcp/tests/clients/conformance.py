"""Counts what the conformance suite wrote, and fails on what is not left out."""

import fnmatch
import json
import pathlib
import re
import sys

revision, folder, listed = sys.argv[1:]
left_out = []
for line in open(listed):
    if line.strip() and not line.startswith("#"):
        scenario, _, check = line.split(":")[0].partition(" ")
        left_out.append((scenario, check))

passed, skipped, failed, out = 0, 0, [], set()
for path in sorted(pathlib.Path(folder).glob("server-*/checks.json")):
    scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", path.parent.name)
    for check in json.loads(path.read_text()):
        status, name = check["status"], check["id"]
        if status == "SUCCESS":
            passed += 1
        elif status in ("SKIPPED", "INFO"):
            skipped += 1
        elif any(
            fnmatch.fnmatchcase(scenario, which) and one in ("", name) for which, one in left_out
        ):
            out.add((scenario, name))
        else:
            failed.append(f"{scenario} {name}: {check.get('errorMessage')}")

scenarios = len({scenario for scenario, _ in out})
print(
    f"conformance {revision}: {passed} passed, {len(failed)} failed, {skipped} skipped; "
    f"left out {len(out)} checks of {scenarios} scenarios"
)
for failure in failed:
    print("  FAILED", failure)
sys.exit(bool(failed) or not passed)
