#!/bin/bash
# The README shows user/todo.c whole, has 120 lines at most, and names only files that exist; libpstore/pstore.md lists all headers.
set -u
cd "$(dirname "$0")/../.." || exit 1
echo 1..4
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
lines=$(wc -l <README.md)
if [ "$lines" -le 120 ]; then
    echo "ok 3 - the README has 120 lines at most"
else
    echo "not ok 3 - the README has 120 lines at most, not $lines"
fi
# Headers of the library's own: *_private.h, and these.
own=' elsewhere.h index_format.h slot.h split_protocol.h store_protocol.h structures/blocks.h structures/node.h '
missing=$(cd libpstore && for f in *.h structures/*.h; do
    [[ $f == *_private.h || $own == *" $f "* ]] || grep -qF "\`<$f>\`" pstore.md || echo "$f"; done)
if [ -z "$missing" ]; then
    echo "ok 4 - libpstore/pstore.md lists each public header"
else
    echo "not ok 4 - libpstore/pstore.md lists each public header"
    echo "# missing: $missing"
fi
