#!/bin/bash
# Containers move: kstore get writes a container's bytes, kstore export and import its objects as lines of JSON,
# into another store and to other addresses, where programs go on with them; bad lines leave nothing behind.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

K=build/host/kstore FROM=$TEST_TMP/from TO=$TEST_TMP/to
guest() { # OPTIONS...: sets output and status
    status=0
    output=$(scripts/run --timeout 100 --memory 128 "$@" 2>"$TEST_TMP/stderr") || status=$?
    output=${output//$'\r'/}
}
line() { tr '\n' ' ' | sed 's/ *$//'; }

# Two containers that point into each other, names, an arena, a large object that is written in few places, and a
# pointer that is not aligned.
cat >"$TEST_TMP/web.c" <<'END'
#include <pstore.h>
#include <stdio.h>
#include <string.h>
struct root { struct spot *first; char *inner; ps_arena *arena; unsigned char *large; struct spot *in_arena; };
struct spot { struct spot *next; char packed[16]; char text[24]; };
enum { LARGE = 3 << 20 };
static ps_container *a, *b;
static int make(void *unused)
{
    struct root *root = ps_root(a), *other = ps_root(b);
    (void)unused;
    root->first = ps_new(a, struct spot, root);
    root->first->next = ps_new(b, struct spot, other);
    root->first->next->next = root->first;
    memcpy(root->first->packed + 3, &root->first->next, sizeof(void *));
    strcpy(root->first->text, "quote \" and \\, caf\xc3\xa9 ");
    root->inner = root->first->text + 5;
    root->arena = ps_arena_make(a);
    root->in_arena = ps_new_in(root->arena, struct spot, NULL);
    root->in_arena->next = root->first;
    root->large = ps_alloc(a, LARGE, NULL);
    root->large[5] = 5;
    root->large[LARGE / 2] = 6;
    ((char **)root->large)[1000] = (char *)root->large + LARGE - 1;
    struct spot **named = ps_named(a, "spot", sizeof *named);
    *named = root->in_arena;
    return ps_active() ? 0 : -1;
}
static int check(void *unused)
{
    struct root *root = ps_root(a);
    (void)unused;
    struct spot *far = root->first->next, *packed, **named = ps_named(a, "spot", sizeof *named);
    memcpy(&packed, root->first->packed + 3, sizeof packed);
    int good = ps_container_of(far) == b && far->next == root->first && packed == far &&
               !strcmp(root->inner, " \" and \\, caf\xc3\xa9 ") && *named == root->in_arena &&
               ps_arena_of(root->in_arena) == root->arena && root->in_arena->next == root->first &&
               root->large[5] == 5 && root->large[LARGE / 2] == 6 &&
               ((char **)root->large)[1000] == (char *)root->large + LARGE - 1 && ps_size(root->large) >= LARGE;
    printf("web %s at %s addresses\n", good ? "sound" : "torn",
           (size_t)root >> 30 == (size_t)ps_root(b) >> 30 ? "the same" : "its");
    return ps_new_in(root->arena, struct spot, NULL) && ps_alloc(a, 5000, root) ? 0 : -errno;
}
int main(int argc, char **argv)
{
    (void)argv;
    a = ps_open("web", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 3));
    b = ps_open("web2", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 3));
    return a && b ? ps_transaction(argc > 1 ? make : check, NULL) != 0 : 1;
}
END
(cd "$TEST_TMP" && "$ROOT/scripts/katydid-cc" web.c -o web) || echo "Bail out! no web"
subjects=(tests/structures/*.c)
subjects=("${subjects[@]/#/build/obj/guest/}")
scripts/katydid-cc -Itests/structures tests/system/structures-cut.c "${subjects[@]/%.c/.o}" -o "$TEST_TMP/structures-cut" ||
    echo "Bail out! no structures-cut"
WITH=(--add "$TEST_TMP/web" --add "$TEST_TMP/structures-cut")

guest --store "$FROM" --store-size 64M "${WITH[@]}" -c 'todo add milk; todo add "bread and \"butter\""; phonebook add ann 100
phonebook add bob 200; phonebook add ann 300; web make; web; structures-cut 7 40 > /tmp/o; structures-cut check 7'
is "programs fill containers" "web sound at its addresses step 40: equal, all of them" "$(line <<<"$output")"

# get: the bytes, with holes; put makes a container of them
$K create --quiet --size 64 "$TO"
head -c 30000 /dev/urandom >"$TEST_TMP/bytes"
$K put --quiet "$TO" bytes "$TEST_TMP/bytes" >/dev/null
$K get --quiet "$TO" bytes "$TEST_TMP/got" >/dev/null
ok "kstore get gives the bytes that were put, padded to a page" cmp -n 30000 "$TEST_TMP/bytes" "$TEST_TMP/got"
is "and no more" 32768 "$(stat -c %s "$TEST_TMP/got")"
$K get --quiet "$FROM" web "$TEST_TMP/web.bytes" >/dev/null
is "a large object that was hardly written is a hole in the file" "yes" \
    "$([ $(($(stat -c '%b * 512' "$TEST_TMP/web.bytes"))) -lt 400000 ] && [ "$(stat -c %s "$TEST_TMP/web.bytes")" -gt 1500000 ] && echo yes)"
$K get --quiet "$TO" bytes "$TEST_TMP/got" >/dev/null 2>&1
is "a file that is there is left alone, a container that is not there told" "3 3" \
    "$? $($K get --quiet "$TO" nothing "$TEST_TMP/none" 2>/dev/null; echo $?)"

# export, import elsewhere, export again: the same lines
STRUCTURES=$($K info "$FROM" | sed -nE 's/^container ([^ ]*) .*/\1/p' | grep -vE '^(todo|phonebook|web|web2)$')
wrong=''
for name in todo phonebook $STRUCTURES web2 web; do
    $K export --quiet "$FROM" "$name" >"$TEST_TMP/$name.jl" || wrong="$wrong [$name is not exported]"
done
for name in todo phonebook $STRUCTURES; do
    $K import --quiet "$TO" "$TEST_TMP/$name.jl" >/dev/null || wrong="$wrong [$name is not imported]"
    $K export --quiet "$TO" "$name" | cmp -s - "$TEST_TMP/$name.jl" || wrong="$wrong [$name differs]"
done
is "each container exports the same lines from the store that it was imported into" "" "$wrong"
ok "each line is JSON" python3 -c 'import json, sys; [json.loads(l) for p in sys.argv[1:] for l in open(p)]' "$TEST_TMP"/*.jl
is "a pointer into a container that is not there is refused by its line" "3 kstore: line N: the store has no container web2: import that first" \
    "$($K import --quiet "$TO" "$TEST_TMP/web.jl" 2>"$TEST_TMP/e"; echo "$?") $(sed -E 's/line [0-9]+/line N/' "$TEST_TMP/e")"
# web and web2 point into each other, so web2 comes without its pointer to web
sed '/"container": "web", /s/{"container": "web", [^}]*}/{"zeros": 8}/' "$TEST_TMP/web2.jl" >"$TEST_TMP/web2.first"
is "a container comes before those that point into it" "0 0" \
    "$($K import --quiet "$TO" "$TEST_TMP/web2.first" >/dev/null; echo $?) $($K import --quiet "$TO" "$TEST_TMP/web.jl" >/dev/null; echo $?)"
ok "web exports the same lines" cmp "$TEST_TMP/web.jl" <($K export --quiet "$TO" web)
$K export --quiet -p "$TEST_TMP/web" "$TO" web >"$TEST_TMP/named.jl"
is "types are told by text where a root or a program has it, and read back as that or as their numbers" "struct root struct spot 0 same" \
    "$(grep -o '"type": "[^"]*", "data"' "$TEST_TMP/named.jl" | sed 's/"type": "\(.*\)", "data"/\1/' | sort -u | line) \
$($K import --quiet --name named "$TO" "$TEST_TMP/named.jl" >/dev/null; echo $?) \
$(cmp -s <($K export --quiet -p "$TEST_TMP/web" "$TO" named | tail -n +2) <(tail -n +2 "$TEST_TMP/named.jl") && echo same)"
is "an import under a name that is taken is refused" 3 "$($K import --quiet "$TO" "$TEST_TMP/todo.jl" 2>/dev/null; echo $?)"
is "and goes under another" 0 "$($K import --quiet --name todo2 "$TO" "$TEST_TMP/todo.jl" >/dev/null; echo $?)"
is "raw bytes have no objects to export" "1 1" \
    "$($K export --quiet "$TO" bytes 2>"$TEST_TMP/e" >/dev/null; echo $?) $(grep -c 'without objects' "$TEST_TMP/e")"
$K check --strict --quiet "$TO" >"$TEST_TMP/check" 2>&1
is "kstore finds the store sound, and every page of objects" 0 $?
guest --store "$TO" "${WITH[@]}" -c 'todo; phonebook list; phonebook check; structures-cut check 7; todo add eggs; todo; phonebook add cy 400; phonebook check'
is "programs go on with what was imported" \
    '- bread and "butter" - milk ann 100 ann 300 bob 200 3 people, sound step 40: equal, all of them - eggs - bread and "butter" - milk 4 people, sound' \
    "$(tr -s ' ' <<<"$output" | line)"
$K check --strict --quiet "$TO" >"$TEST_TMP/check" 2>&1
is "and the store stays sound" 0 $?

# What an import that was stopped has left, a container without a type and with that name.
LEFT='import under way'
head -c 9000 "$TEST_TMP/bytes" >"$TEST_TMP/some"
$K put --quiet "$TO" "$LEFT" "$TEST_TMP/some" >/dev/null
is "the next import removes it, and says so" "0 1 0" "$($K import --quiet --name todo3 "$TO" "$TEST_TMP/todo.jl" 2>"$TEST_TMP/e" >/dev/null; echo $?) \
$(grep -c 'removed what an import that was cut off has left' "$TEST_TMP/e") $($K info "$TO" | grep -c "^container $LEFT")"
$K put --quiet "$TO" "$LEFT" "$TEST_TMP/some" >/dev/null
guest --store "$TO" -c "containers; rm-container '$LEFT'; containers"
is "or the guest's rm-container does" 1 "$(grep -c "$LEFT" <<<"$output")"
guest --store "$TO" --import tests/board -c "board '$LEFT' 'load /import/tiny.kicad_pcb' save"
is "a program's container of that name is left alone" "3 1 1" "$($K import --quiet --name todo4 "$TO" "$TEST_TMP/todo.jl" 2>"$TEST_TMP/e" >/dev/null; echo $?) \
$(grep -c 'remove it first' "$TEST_TMP/e") $($K info "$TO" | grep -c "^container $LEFT")"

# All or nothing: lines that were spoilt in some way.
python3 - "$TEST_TMP" "${SEED:-1}" "${TIMES:-1}" "${TEST_TIER:-test}" <<'END'
import os, random, re, subprocess, sys
folder, seed, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
program, store = "build/tests/asan/kstore", os.path.join(folder, "spoilt")
program = program if os.path.exists(program) else "build/host/kstore"
subprocess.run(["build/host/kstore", "create", "--quiet", "--force", "--size", "16", store], check=True)
lines = {name: open(os.path.join(folder, name + ".jl")).read() for name in ("todo", "phonebook")}
refused, taken, wrong = 0, 0, []
for number in range(120 * times if sys.argv[4] == "long" else 40):
    text = lines[draw.choice(list(lines))]
    at = draw.randrange(len(text))
    how = draw.randrange(5)
    other = draw.randrange(len(text))
    text = {0: text[:at], 1: text[:at] + chr(draw.randrange(1, 256)) + text[at + 1:],
            2: text[:at] + text[at + draw.randrange(1, 40):],
            3: text[:at] + str(draw.choice([0, 1, 8, 4095, 2**32, 2**63, 2**64])) + text[at:],
            4: text[:at] + text[other:other + draw.randrange(1, 200)] + text[at:]}[how]
    if number == 0:         # cut off behind a backslash, where the reader's buffer of 120 bytes ends
        text = '{"container": "q", "segments": 1}\n{"page": 0}\n' + \
               '{"object": 16, "bytes": 160, "data": [{"text": "'.ljust(118, "b") + "\\"
    if number == 1:         # 1 GiB of pages for a store of 16 MiB
        text = '{"container": "q", "segments": 12}\n{"page": 0, "tail": 262143}\n{"end": 0}\n'
    if number == 2:         # a root outside of its object
        text = lines["todo"].replace("{", '{"root": {"object": 32, "offset": 99999999999999}, ', 1)
    if number == 3:         # a name of more bytes than its object has
        text = re.sub(r'("named": .*"bytes": )\d+', r"\g<1>18446744073709551615", lines["phonebook"], count=1)
    done = subprocess.run([program, "import", "--quiet", "--name", f"n{number}", store, "-"], input=text.encode("latin-1"),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    error = done.stderr.decode(errors="replace")
    if number < 4 and done.returncode == 0:
        wrong.append(f"number {number} was taken: {text[:200]}")
    if done.returncode == 0:
        taken += 1
        subprocess.run([program, "export", "--quiet", store, f"n{number}"], stdout=subprocess.PIPE, check=True)
    elif done.returncode == 3 and ("line " in error or "name" in error):
        refused += 1
    else:
        wrong.append(f"SEED={seed} number {number}: status {done.returncode}: {error[-300:]}")
names = subprocess.run(["build/host/kstore", "info", store], stdout=subprocess.PIPE, text=True).stdout
left = names.count("\ncontainer ")
check = subprocess.run(["build/host/kstore", "check", "--quiet", store], stdout=subprocess.PIPE).returncode
if left != taken or check or "under way" in names:
    wrong.append(f"{taken} were imported, {left} are there; check says {check}")
open(os.path.join(folder, "result"), "w").write("\n".join(wrong))
print(f"# {refused} spoilt files refused, {taken} harmless")
END
is "lines that were spoilt are refused with their number, and leave nothing in the store" "" "$(cat "$TEST_TMP/result")"
done_testing
