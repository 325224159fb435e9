"""Counts what the conformance suite wrote, and fails on what is not left out.

    conformance.py server|client REVISION FOLDER LEFT_OUT
"""

import fnmatch
import json
import pathlib
import re
import sys

side, revision, folder, listed = sys.argv[1:]
left_out = []
for line in open(listed):
    if line.strip() and not line.startswith("#"):
        which, scenario, check = re.match(r"(server|client) (\S+?)(?: (\S+))?: ", line).groups()
        if which == side:
            left_out.append((scenario, check))


def is_left_out(scenario, check):
    return any(
        fnmatch.fnmatchcase(scenario, which) and one in (None, check) for which, one in left_out
    )


passed, skipped, failed, out = 0, 0, [], set()
ran, clean, ended = set(), set(), set()
for path in sorted(pathlib.Path(folder).rglob("checks.json")):
    scenario = path.parent.relative_to(folder).as_posix()
    scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[^/]*$", "", scenario)
    ran.add(scenario)
    said = path.with_name("stdout.txt")
    if said.exists() and said.read_text().endswith("closed\n"):
        ended.add(scenario)
    for check in json.loads(path.read_text()):
        status, name = check["status"], check["id"]
        if status == "SUCCESS":
            passed += 1
            clean.add(scenario)
        elif status in ("SKIPPED", "INFO"):
            skipped += 1
        elif is_left_out(scenario, name):
            out.add((scenario, name))
        else:
            failed.append(f"{scenario} {name}: {check.get('errorMessage')}")

if side == "client":
    # What was not seen to go well did not: a client that fails, or does nothing.
    kept = sorted(scenario for scenario in ran if not is_left_out(scenario, None))
    for scenario in kept:
        if scenario not in clean:
            failed.append(f"{scenario}: no check of it passed")
        if scenario not in ended:
            failed.append(f"{scenario}: the client did not come to its end")
    print(f"client {revision}:", ", ".join(kept))

scenarios = len({scenario for scenario, _ in out})
print(
    f"conformance, {side}, {revision}: {passed} passed, {len(failed)} failed, {skipped} skipped; "
    f"left out {len(out)} checks of {scenarios} scenarios"
)
for failure in failed:
    print("  FAILED", failure)
sys.exit(bool(failed) or not passed)
