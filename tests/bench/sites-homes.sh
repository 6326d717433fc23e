#!/bin/bash
# Group sites, a part of it: one home for all containers, and each site the home of its own (user/sites/figures.md): at 1, 2
# and 3 sites, and with links that take longer. What the guests print goes to files of the folder FOLDER, or without it the
# table is printed alone. SITES=2, DELAYS="": fewer of them.
set -eu
cd "$(dirname "$0")/../.."
folder=${1:-$(mktemp -d)}
[ $# -gt 0 ] || trap 'rm -rf "$folder"' EXIT
make -s build/tests/sites/homes
options="--icount --cpus 1 --link lease=20000 --add build/tests/sites/homes"
guests=(a b c)

# links SITES DELAY: one between each two
links() {
    local i k
    for ((i = 0; i < $1; i++)); do
        for ((k = i + 1; k < $1; k++)); do echo "link ${guests[i]} ${guests[k]} delay=$2"; done
    done
}

# exports NAME SITE: to the two others
exports() {
    local guest
    for guest in a b c; do [ "$guest" = "$2" ] || echo -n "store export $1 $guest write; "; done
}

# names WHICH SITES SELF: of all containers, as this site says them; at one home all are at a
names() {
    local i home
    for ((i = 0; i < $2; i++)); do
        home=${guests[i]}
        [ "$1" = each ] || home=a
        [ "$home" = "${guests[$3]}" ] || echo -n "$home:"
        echo -n "p$i "
    done
}

# plan WHICH SITES DELAY
plan() {
    local i k makes
    for ((i = 0; i < $2; i++)); do
        makes=
        for ((k = 0; k < $2; k++)); do
            if [ "$1" = each ] && [ $k != $i ] || [ "$1" = one ] && [ $i != 0 ]; then continue; fi
            makes+="homes make p$k; $(exports p$k "${guests[i]}")"
        done
        store=--no-store
        [ -z "$makes" ] || store="--store $folder/homes-store-${guests[i]} --store-size 64M --zone $i"
        echo "site ${guests[i]} $store $options : ${makes}homes run $i $(names "$1" "$2" $i); sleep 1"
    done
    links "$2" "$3"
}

# run WHICH SITES DELAY: a file of its own
run() {
    echo "homes: $1, $2 sites, links of $3 ms ..."
    rm -f "$folder"/homes-store-*
    plan "$1" "$2" "$3" | scripts/sites --timeout 600 - >"$folder/homes-$1-$2-$3" || { cat "$folder/homes-$1-$2-$3" >&2; exit 1; }
}

most=${SITES:-3}
run one 1 0
for which in one each; do
    for ((sites = 2; sites <= most; sites++)); do run $which $sites 0; done
    for delay in ${DELAYS-5 20}; do run $which "$most" "$delay"; done
done
[ $# -gt 0 ] || tests/bench/sites-homes.py "$folder"
