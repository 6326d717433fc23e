#!/bin/bash
# Group lua: what a transaction of the persistent Lua costs, in instructions; a commit of one page alone is a row of kernel.
set -eu
cd "$(dirname "$0")/../.."
[ -e build/user/lua ] || { echo "no build/user/lua: scripts/source lua says why" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/loop.lua" <<'END'
n = 0
commit()
local t = os.clock()
for i = 1, 200 do n = n + 1 commit() end
print("loop", math.floor((os.clock() - t) / 200 * 1e9))
local s = snapshot()
t = os.clock()
for i = 1, 200 do local x = s.n end
print("snapshot", math.floor((os.clock() - t) / 200 * 1e9))
END
{
    echo 't = os.clock()'
    for _ in {1..200}; do echo 'n = n + 1'; done
    echo 'print("line", math.floor((os.clock() - t) / 200 * 1e9))'
} >"$scratch/lines"
scripts/run --icount --cpus 1 --timeout 120 --import "$scratch" -c 'lua /import/loop.lua; lua </import/lines' |
    tr -d '\r' >"$scratch/out"
row() { printf '%s\tinstructions\t%s\t%s\n' "$1" "$(sed -n "s/^$2\t//p" "$scratch/out")" "$3"; }
row 'Lua: n = n + 1, commit()' loop 28000
row 'Lua: a line read, compiled, run and committed' line 150000
row 'Lua: a global read from a snapshot' snapshot 6000
