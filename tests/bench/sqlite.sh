#!/bin/bash
# Group sqlite: statements of SQLite on a container, in instructions and requests of the disk. One CPU.
set -eu
cd "$(dirname "$0")/../.."
[ -e build/user/sqlite ] || { echo "no build/user/sqlite: scripts/source sqlite says why" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make -s build/sqlite/libsqlite3.a
scripts/katydid-cc -Ibuild/sqlite -Lbuild/sqlite tests/sqlite/bench-sqlite.c -lsqlite3 -o "$scratch/bench-sqlite"
scripts/run --icount --cpus 1 --timeout 300 --add "$scratch/bench-sqlite" -c bench-sqlite
