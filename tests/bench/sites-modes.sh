#!/bin/bash
# Group sites, its second part: one program by the place of its functions, and by the mode of coherence
# (user/sites/modes.md). Prints rows for scripts/bench.
set -eu
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make -s build/tests/sites/modes
options="--icount --cpus 1 --link lease=20000 --add build/tests/sites/modes"

# shellcheck disable=SC2086 # options are words
scripts/run ${options/--link lease=20000/} --store "$scratch/one" --allow names --timeout 300 -c "modes box split & modes box here" | tr -d "\r" | sed "s,^,a: ," >"$scratch/here"
# scripts/sites has a plan's guests run beside each other
scripts/sites --timeout 600 - >"$scratch/far" <<END
site a --store $scratch/store $options --allow names : modes box split & modes box make; store export box b write; store export parts b write; modes box serve
site b --no-store $options : modes a:box ready far seen end
link a b
END
tests/bench/sites-modes.py "$scratch"
