#!/bin/bash
# Rights in the store at the shell: directories, links with fewer rights, programs that are given one container.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

guest() {
    output=$(scripts/run --timeout 60 --store "$TEST_TMP/store" --store-size 64M -c "$1" 2>&1)
    output=${output//$'\r'/}
}
is_output() { is "$1" "$2" "$output"; }
missing="there is no container of that name: check it. The shell's \`containers\` lists them"
rights="rights are all, or of read,write,delete,rename,manage,grant"

guest 'todo add milk; run --only todo todo add eggs; run --only todo todo
    run --only todo:read todo add no 2>/tmp/e || echo refused; run --only todo bank 2>/tmp/e || echo refused
    run --only none todo; echo $?; run --only todo:fly todo; echo $?'
is_output "a program with one container uses it, and nothing else; names and rights that there are not" "- eggs
- milk
refused
refused
run: none: $missing
2
sh: run: $rights
2"

guest 'cap dir alice; cap give todo alice/loan; ls -l; with alice ls -l; with alice todo add wine; with alice run todo
    with alice sh -c "run --only todo todo add beer; todo"; who todo; cap drop alice/loan; who todo; cap back todo
    todo; cap give todo alice/x read,fly; ls -l none; cap give none x'
is_output "a directory of one's own; a link to read, who has it, and taken back" "rwdnmg     #2 of -      alice/
rwdnmg     #1 of -      todo
r-----      1 of #1     loan
- wine
- beer
- wine
rwdnmg     #1 of -      todo
r-----      1 of #1     alice/loan
rwdnmg     #1 of -      todo
0 taken back
- eggs
- milk
sh: cap: $rights
ls: none: $missing
cap: none: $missing"
done_testing
