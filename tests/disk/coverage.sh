#!/bin/bash
# coverage.sh - runs host tests built with gcov's counters, prints what they ran of disk/, and fails
# if a file is below its level. `make coverage` builds the tests before.
#
#   tests/disk/coverage.sh PROGRAM...
#
# never() is compiled out: what it says cannot be is not to be run. The
# HTML report is build/coverage/index.html.
set -u
cd "$(dirname "$0")/../.." || exit 1

failed=0
find build/obj/coverage -name '*.gcda' -delete
for program; do
    printf '  RUN  %s\n' "$program"
    some=${N:-24}
    [[ $program == *calls || $program == *hash ]] && some=${N:-400}     # short jobs
    if ! N=$some "$program" >"$program.log" 2>&1; then
        echo "not ok - $program.log: $(grep -m 1 'FAILED\|ERROR' "$program.log")"
        failed=1
    fi
done
gcovr --root . --object-directory build/obj/coverage --filter 'disk/[a-z0-9_]*\.c' \
    --exclude 'disk/bug\.c' --exclude-unreachable-branches \
    --json build/coverage/full.json --json-summary build/coverage/summary.json \
    --html-details build/coverage/index.html \
    || exit 1
python3 - <<'END' || failed=1
import json, sys

# Log, recovery, checkpoint, superblock and allocator: every branch, in both directions.
LEVEL = dict.fromkeys("group record plan chain scan rechain open slots store decide image checkpoint superblock "
                      "space hash".split(), 100)
failed = 0
print(f"  {'file':24} {'lines':>8} {'branches':>16}")
for entry in sorted(json.load(open("build/coverage/summary.json"))["files"],
                    key=lambda entry: entry["filename"]):
    name = entry["filename"].split("/")[-1][:-2]
    need = LEVEL.get(name, 0)
    got = entry["branch_percent"] if entry["branch_total"] else 100
    bad = got is not None and got < need
    failed += bad
    print(f"  {entry['filename']:24} {entry['line_percent']:7.1f}% {entry['branch_covered']:6} of "
          f"{entry['branch_total']:4} {got:5.1f}%{'  BELOW ' + str(need) + '%' if bad else ''}")

missing = json.load(open("build/coverage/full.json"))["files"]
with open("build/coverage/missing.txt", "w") as out:
    for file in missing:
        for line in file["lines"]:
            if any(branch["count"] == 0 for branch in line.get("branches", [])):
                print(file["file"], line["line_number"], file=out)
print("  lines with a branch not run: build/coverage/missing.txt; all: build/coverage/index.html")
sys.exit(failed > 0)
END
exit $failed
