#!/bin/bash
# Group sites: what containers of another site cost (user/sites/figures.md). Guests a, the home, b and c; instructions are
# counted in each of them, without what it idles and, where that is said, without those of `link`; messages are counted by
# `remote`. tests/bench/sites-figures.py makes the tables. SIZE: tuples of the largest relation; 200000 takes ten minutes.
# SMALL=MIB: memory of the guests of Figure 3's curve, whose picture is build/bench/selection.svg.
set -eu
cd "$(dirname "$0")/../.."
size=${SIZE:-100000}
[ "$size" -ge 25000 ] || { echo "sites.sh: SIZE is 25000 at least: one of the tables has so many tuples" >&2; exit 2; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
make -s build/tests/sites/figures build/tests/sites/relations
tests/oo1/build "$scratch/bin"

options="--icount --cpus 1 --link lease=20000"
far="--no-store $options --add build/tests/sites/figures --add build/tests/sites/relations --add $scratch/bin/oo1-store"
home="--store $scratch/store $options --memory $((size > 100000 ? 448 : 256)) --add build/tests/sites/figures --add build/tests/sites/relations --add $scratch/bin/oo1-store"

# system NAME: a plan from stdin; what its guests print goes to $scratch/NAME.
system() { scripts/sites --timeout 900 - >"$scratch/$1" || { cat "$scratch/$1" >&2; exit 1; }; }

echo "made ..."
fast=${home/--icount/}
# shellcheck disable=SC2086 # options are words
scripts/run $fast --site a --zone 0 --store-size 1G --timeout 900 -c "figures box make; relations rel make=$size; oo1-store create 20000; store export oo1 b write; store export box b write; \
store export box c write; store export rel b write; store export rel c write"
echo "one site ..."
# shellcheck disable=SC2086
scripts/run $home --site a --zone 0 --timeout 900 -c "figures box serve & sleep 1; figures box all pages; relations rel scans=2 select parts; oo1-store warm 20000 3" | tr -d '\r' | sed 's/^/a: /' >"$scratch/one"
echo "two sites ..."
system two <<END
site a $home : figures box all; figures box serve; relations rel all; relations rel serve
site b $far : figures a:box ready pages end; OO1_CONTAINER=a:oo1 oo1-store warm 20000 3; relations a:rel ready scans=2 select parts end
link a b
END
echo "three sites ..."
system three <<END
site a $home : figures box all; figures box serve; relations rel all; relations rel serve
site b $far : figures a:box ready both=0 end; relations a:rel ready scans=2 select parts end
site c $far : figures a:box quiet both=1; relations a:rel quiet select scans=2 parts
link a b
link a c
END
echo "memory ends ..."
little="--memory ${SMALL:-28}"
# shellcheck disable=SC2086
scripts/run $home $little --site a --zone 0 --timeout 900 -c "relations rel scans=2" | tr -d '\r' | sed 's/^/a: /' >"$scratch/small1"
system small2 <<END
site a $home : relations rel all; relations rel serve
site b $far $little : relations a:rel ready scans=2 end
link a b
END
system small3 <<END
site a $home : relations rel all; relations rel serve
site b $far $little : relations a:rel ready scans=2 end
site c $far $little : relations a:rel quiet scans=2
link a b
link a c
END
echo "a slow link ..."
system slow <<END
site a $home : figures box serve
site b $far : figures a:box ready commit end
link a b delay=10
END
echo "a spare ..."
build/host/kstore create --quiet --size 64M "$scratch/home"
# shellcheck disable=SC2086
scripts/run ${options/--icount/} --site a --store "$scratch/home" --add build/tests/sites/figures --timeout 300 -c "figures box make"
cp "$scratch/home" "$scratch/first"
# shellcheck disable=SC2086
scripts/run $options --site a --store "$scratch/home" --add build/tests/sites/figures --timeout 300 -c "figures box all commit" |
    tr -d '\r' | sed 's/^/a: /' >"$scratch/alone"
cp "$scratch/first" "$scratch/home"
cp "$scratch/first" "$scratch/spare"
system pair <<END
site a --store $scratch/home $options --add build/tests/sites/figures : sleep 60; store status; figures box all commit; store status
server b --store $scratch/spare $options : sleep 10000
server w --store $scratch/witness --store-size 64M --zone 7 $options : sleep 10000
link a b
link a w
link b w
pair a b w
END
echo "its home dies ..."
make -s build/tests/sites/shared
cp "$scratch/first" "$scratch/home"
cp "$scratch/first" "$scratch/spare"
with="--cpus 1 --memory 128 --link lease=250 --add build/tests/sites/shared"
system dies <<END
site c --no-store $with : shared a:count open ups=300 pause=60000
server a --store $scratch/home $with : shared count create=1; store export count c write; sleep 600
server b --store $scratch/spare $with : sleep 600
server w --store $scratch/witness --zone 7 $with : sleep 600
link a b
link a w
link b w
link a c
link b c
pair a b w
at b>a 120 kill a
END
echo "two homes ..."
make -s build/tests/sites/transfers
with="$options --add build/tests/sites/transfers"
system homes <<END
server a --store $scratch/box-a --store-size 64M --zone 0 $with : transfers box box create; store export box c write; sleep 1000
server b --store $scratch/box-b --store-size 64M --zone 1 $with : transfers box box create; store export box c write; sleep 1000
site c --no-store $with : transfers a:box b:box open costs=200
link a c
link b c
link a b
END
tests/bench/sites-homes.sh "$scratch"
tests/bench/sites-figures.py "$scratch"
tests/bench/sites-homes.py "$scratch"
tests/bench/sites-modes.sh
tests/bench/sites-layout.py
