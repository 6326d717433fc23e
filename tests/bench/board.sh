#!/bin/bash
# Group board: a design transaction on a real board. 100 parts are moved and saved, once in one step each, once in 1,000:
# what the commit writes and what it costs, and what is asked of the store manager before it. BOARD_STORE: a store with this
# board, saved as `video`. The commit may cost 5 % more or less: when the disk answers is of the host.
set -eu
cd "$(dirname "$0")/../.."
demos=${BOARDS:-/usr/share/kicad/demos}
[ -e "$demos/video/video.kicad_pcb" ] || { echo "no $demos/video/video.kicad_pcb: apt install kicad-demos" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/in"
cp "$demos/video/video.kicad_pcb" "$scratch/in/"
guest() { scripts/run --icount --cpus 1 --store "$scratch/store" --import "$scratch/in" -c "$1" | tr -d '\r'; }
load='"load /import/video.kicad_pcb" save'
[ -z "${BOARD_STORE:-}" ] || { cp --sparse=always "$BOARD_STORE" "$scratch/store" && load=; }
guest "board video $load \"list *\"" | sed -n 's/ *at .*//p' | head -n 100 >"$scratch/parts"
[ "$(wc -l <"$scratch/parts")" = 100 ] || { echo "the board was not loaded" >&2; exit 1; }
moves() { sed "s/\$/ 0.1 0.1 $1/; s/^/move /" "$scratch/parts"; echo save; }
for steps in 1 1000; do                 # the first save of each run brings the pages into memory
    { moves 1; moves $steps; } >"$scratch/in/$steps"
    cp --sparse=always "$scratch/store" "$scratch/kept"
    guest "board video </import/$steps" | sed -nE \
        's/^version 2: [0-9]+ pages, ([0-9]+) bytes of log, ([0-9]+) cycles;.* ([0-9]+) other.*/\1 \2 \3/p' >"$scratch/$steps"
    mv "$scratch/kept" "$scratch/store"
done
read -r bytes cycles messages <"$scratch/1"
read -r bytes_all cycles_all messages_all <"$scratch/1000"
printf 'board, 100 parts moved in 1 step each: log\tbytes\t%s\t-\n' "$bytes"
printf 'board, 100 parts moved in 1 step each: commit\tinstructions\t%s\t-\n' "$cycles"
printf 'board, in 1,000 steps each: log\tbytes\t%s\t%s\n' "$bytes_all" $((bytes + 4096))       # groups are of whole blocks
printf 'board, in 1,000 steps each: commit\tinstructions\t%s\t%s\n' "$cycles_all" $((cycles + cycles / 20))
printf 'board: messages before the commit but for pages, 1 and 1,000 steps\tmessages\t%s\t0\n' $((messages + messages_all))
