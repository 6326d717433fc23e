#!/bin/bash
# Power cuts of several machines at once, from their write logs: two homes that a third machine changes in one
# transaction, and a home with its spare and their witness. While they run, scripts/sites notes how long all logs were
# at one moment; each disk is made as it may be then, its open writes there, missing or torn by chance, and all are
# started again. What was acknowledged by that moment is there, all or nothing over both homes; of a home with a spare
# also if the home never comes back (user/sites/sites.md, spare.md).
# In `make test` these two take turns, day by day.
# Waits: for leases, and for a spare that takes over.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
STATES=${STATES:-1} SEED=${SEED:-1} STEPS=24
[ "${TEST_TIER:-test}" != long ] || STATES=$((30 * STATES * ${TIMES:-1})) STEPS=60
program=$TEST_TMP/parts-cut
scripts/katydid-cc -I. tests/system/parts-cut.c -o "$program" || echo "Bail out! no parts-cut"
common="--cpus 1 --memory 96 --link lease=2000 --add $program"

disks() { # SITE ...: what the first run begins with
    for site; do
        truncate -s 24M "$TEST_TMP/$site.base"
        cp --sparse=always "$TEST_TMP/$site.base" "$TEST_TMP/$site"
    done
}
store() { echo "--store $TEST_TMP/$1 ${2:+--record $TEST_TMP/$1.log}"; }

# cuts LINE SEED SITE ...: the disks of that moment. Sets acked.
cuts() {
    local moment seed=$2 site
    moment=$(sed -n "$1p" "$TEST_TMP/moments")
    acked=$(head -n "${moment##*=}" "$TEST_TMP/said" | sed -n 's/^far: ack //p' | tail -1)
    shift 2
    for site; do
        scripts/cut "$TEST_TMP/$site.log" "$TEST_TMP/$site.base" "$TEST_TMP/$site" --seed "$seed" \
            --moment "$(grep -o "\b$site=[0-9]*" <<<"$moment" | cut -d= -f2)" >>"$TEST_TMP/cuts" || echo "Bail out! no cut"
    done
}
checked() { # PLAN: sets step
    scripts/sites --timeout 150 --verbose - <<<"$1" >"$TEST_TMP/again" 2>&1
    step=$(sed -n 's/^far: step //p' "$TEST_TMP/again")
    [ -n "$step" ] && [ "$step" -ge "${acked:-0}" ] && [ "$step" -le $STEPS ]
}
sound() { # SITE ...
    local site
    for site; do build/host/kstore check --strict --quiet "$TEST_TMP/$site" >"$TEST_TMP/checked" 2>&1 || return; done
}
# draw SITE ...: STATES moments, from the first acknowledged step on, spread over the run. Calls `look` for each.
draw() {
    local first last line i
    wrong='' seen=''
    first=$(grep -n -m1 '^far: ack' "$TEST_TMP/said" | cut -d: -f1)
    first=$(awk -F= -v n="$first" '$NF >= n {print NR; exit}' "$TEST_TMP/moments")
    last=$(awk -F= -v n=$STEPS '{line = NR} $NF >= n {exit} END {print line}' "$TEST_TMP/moments")
    for ((i = 0; i < STATES; i++)); do
        line=$((first + (last - first) * (2 * i + 1) / (2 * STATES)))
        look "$line" "$SEED$i" "$@" || wrong="$wrong [moment $line of $last, SEED=$SEED: $acked acknowledged, found $(tail -30 "$TEST_TMP/again")]"
        seen="$seen $acked:$step"
    done
    echo "# acknowledged and found:$seen"
}

# --- two homes ---
homes() { # COMMANDS-OF-FAR COMMANDS-OF-A-HOME RECORD
    cat <<PLAN
server one $common $(store one "$3") --zone 0 : $2 sleep 1000
server two $common $(store two "$3") --zone 1 : $2 sleep 1000
site far $common --no-store : $1
link one far
link two far
link one two
PLAN
}
if today 0 2; then
    disks one two
    scripts/sites --seed "$SEED" --timeout 150 --moments "$TEST_TMP/moments" - >"$TEST_TMP/said" 2>&1 \
        <<<"$(homes "parts-cut at one:box two:box : 1 $STEPS" "parts-cut at box : make; store export box far write;" record)"
    is "two homes: each step is committed" $STEPS "$(grep -c '^far: ack' "$TEST_TMP/said")"
    grep -q '^far: ack' "$TEST_TMP/said" || sed 's/^/# /' "$TEST_TMP/said"
    look() {
        cuts "$@"
        checked "$(homes 'parts-cut at one:box two:box : check' '' '')" && sound one two
    }
    draw one two
    is "cut at one moment, both have the same steps, each as a whole, and what was acknowledged" "" "$wrong"
fi

# --- a home and its spare ---
pair() { # COMMANDS-OF-FAR COMMANDS-OF-A RECORD
    cat <<PLAN
server a $common --pair b,w $(store a "$3") : $2 sleep 1000
server b $common --pair a,w $(store b "$3") : sleep 1000
server w $common --witness-of a,b $(store w "$3") --zone 7 : sleep 1000
site far $common --no-store : $1
link b w
link b far
link a b
link a w
link a far
PLAN
}
if today 1 2; then
    truncate -s 24M "$TEST_TMP/w.base"
    build/host/kstore create --quiet --size 64M "$TEST_TMP/a.base" && cp "$TEST_TMP/a.base" "$TEST_TMP/b.base"
    for site in a b w; do cp --sparse=always "$TEST_TMP/$site.base" "$TEST_TMP/$site"; done
    scripts/sites --seed "$SEED" --timeout 150 --moments "$TEST_TMP/moments" - >"$TEST_TMP/said" 2>&1 \
        <<<"$(pair "parts-cut at a:box : 1 $STEPS" "parts-cut at box : make; parts-cut paired; store export box far write;" record)"
    is "with a spare: each step is committed" $STEPS "$(grep -c '^far: ack' "$TEST_TMP/said")"
    grep -q '^far: ack' "$TEST_TMP/said" || sed 's/^/# /' "$TEST_TMP/said"
    # Each moment with all three machines, and with a gone for good.
    look() {
        cuts "$@"
        cp --sparse=always "$TEST_TMP/b" "$TEST_TMP/b.cut" && cp --sparse=always "$TEST_TMP/w" "$TEST_TMP/w.cut"
        checked "$(pair 'parts-cut at a:box : check' '' '')" && sound a b || return
        mv "$TEST_TMP/b.cut" "$TEST_TMP/b" && mv "$TEST_TMP/w.cut" "$TEST_TMP/w"
        checked "$(pair 'parts-cut at a:box : check' '' '' | grep -v '^server a\|^link a')" && sound b
    }
    draw a b w
    is "home, spare and witness, cut at one moment: what was acknowledged is there, with the home's machine and without" "" "$wrong"
fi
done_testing
