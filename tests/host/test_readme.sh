#!/bin/bash
# The README shows user/todo.c whole, and names only files that exist.
set -u
cd "$(dirname "$0")/../.." || exit 1
echo 1..2
if python3 -c 'import sys; sys.exit(open("user/todo.c").read() not in open("README.md").read())'; then
    echo "ok 1 - the first program in the README is user/todo.c"
else
    echo "not ok 1 - the first program in the README is user/todo.c"
fi
missing=$(grep -o '](\([^)#]*\))' README.md | tr -d '])(' | while read -r f; do [ -e "$f" ] || echo "$f"; done)
if [ -z "$missing" ]; then
    echo "ok 2 - what the README links to exists"
else
    echo "not ok 2 - what the README links to exists"
    echo "# missing: $missing"
fi
