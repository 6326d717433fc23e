#!/bin/bash
# Rights in the store at the shell: directories, links with fewer rights, programs that are given one container.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

add=()
guest() {
    output=$(scripts/run --timeout 60 "${add[@]}" --store "$TEST_TMP/store" --store-size 64M -c "$1" 2>&1)
    output=${output//$'\r'/}
}
is_output() { is "$1" "$2" "$output"; }
missing="there is no container of that name: check it. The shell's \`ls -l\` lists them"
rights="rights are all, or of read,write,delete,rename,manage,grant, or letters of rwdnmg"
others="rwdnmg      - of -      each program that is started without \`with\` and \`run --only\`"

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
$others
rwdnmg     #1 of -      todo
$others
taken back: 0 links, and all handles
- eggs
- milk
sh: cap: $rights
ls: none: $missing
cap: none: $missing"

# WHAT of PATH, of which only HAS is there; who has NEED gives it by COMMAND.
lacks() { echo "$1 may only be $2 here: $3 is missing; whoever has $4 gives it by \`$5\`"; }
# By the name that lacks it nobody can.
lacks_link() { lacks "$1" "$2" "$3" "$4" "" | sed "s/by .*/by another name of it: \`cap give THAT-NAME NEW-NAME $5\`/"; }
guest 'run --only todo:r todo add no; run --only todo:r sh -c "cap give todo x; cap todo; who todo"
    with alice:r sh -c "cap dir x; cap drop todo; rm-container todo; cap give todo y; cap back todo; cap limit todo pages 3"
    cap drop todo; cap dir bob; cap give bob alice/to-bob rw; with alice sh -c "cap give todo to-bob/wine r; cap give to-bob/wine z"
    with bob sh -c "todo add no; rm-container wine; ls -l"; with bob wn dog; with bob sh -c "store; PS_STORE=store2 todo"'
is_output "who lacks a right hears which, of what, and how it is given" \
"todo: $(lacks todo read WRITE 'WRITE and GRANT' 'run --only todo:rw PROGRAM')
cap: todo: $(lacks todo read GRANT GRANT 'run --only todo:rg PROGRAM')
todo: a container, read; grant #1
r-----     #1 of -      todo
who: processes are not told: todo: $(lacks todo read MANAGE 'MANAGE and GRANT' 'run --only todo:rm PROGRAM')
cap: x: $(lacks "this program's root directory" read WRITE 'WRITE and GRANT' 'with DIR:rw PROGRAM')
cap: todo: $(lacks "this program's root directory" read WRITE 'WRITE and GRANT' 'with DIR:rw PROGRAM')
rm-container: todo: $(lacks "this program's root directory" read DELETE 'DELETE and GRANT' 'with DIR:rd PROGRAM')
cap: todo: $(lacks "this program's root directory" read GRANT GRANT 'with DIR:rg PROGRAM')
cap: todo: $(lacks "this program's root directory" read MANAGE 'MANAGE and GRANT' 'with DIR:rm PROGRAM')
cap: todo: a part of the path is a container, and no directory: check it (\`ls -l\`)
cap: todo: it is the container's first entry, which stays as long as the container: delete it (\`rm-container\`), or give it another name
cap: to-bob/wine: $(lacks_link to-bob/wine read GRANT GRANT rg)
rm-container: wine: $(lacks_link wine read DELETE 'DELETE and GRANT' rd)
rwdnmg     #6 of -      todo
r-----      3 of #4     wine
wn: there is no container wordnet; bring WordNet in first: wn-import /import
store: this is about the store as a whole, which only programs may touch that are started without \`with\` and \`run --only\`
todo: this program was given nothing of that store: who starts it gives it by \`run --only NAME PROGRAM\` or \`with DIR PROGRAM\`"

# Opens a container, takes a handle of a directory, and runs a command, the word PID in it being its own number.
cat >"$TEST_TMP/has.c" <<'END'
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "start.h"
int main(int argc, char **argv)
{
    char command[512];
    ps_container *c = ps_open(argv[1], PS_WRITE, NULL);
    int handle = ps_handle(argv[2], PS_MAY_READ | PS_MAY_GRANT), status;
    const char *words[] = {"sh", "-c", command, NULL};
    if (argc != 4 || !c || handle < 0)
        return fprintf(stderr, "has: not had\n"), 2;
    snprintf(command, sizeof command, argv[3], getpid(), getpid());
    long pid = start_program("/bin/sh", words, 0, 1);
    kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    printf("%s\n", argv[1]);
    fflush(stdout);
    return *(volatile int *)ps_address(c) == 4711; /* ended, as if it had never been his */
}
END
scripts/katydid-cc "$TEST_TMP/has.c" -Iuser -o "$TEST_TMP/has"
pids() { output=$(sed -E 's/\[[0-9]+\]/[N]/g' <<<"$output"); }
output=$(scripts/run --timeout 60 --add "$TEST_TMP/has" --store "$TEST_TMP/store" -c 'cap give alice/todo bob/lent rw
    allow look has bob/lent alice "caps %d; who alice/todo; allow none sh -c \"who bob/lent; caps %d\"; cap drop bob/lent"; echo $?' 2>&1 | sed '/^139/q' | grep -v killed)
output=${output//$'\r'/}; pids
is_output "caps says what a process has, by name; who says which processes have a container" \
"handle  what: rights
     0  system: look
     1  port of store[N]: call
     2  alice/: read,grant; grant #2
  open  bob/lent: read,write; grant 4
rw----      2 of #5     alice/to-bob/
rwdnmg     #4 of -      alice/todo
rw----      4 of #4     bob/lent
r-----      3 of #4     bob/wine
rw----      4 open      has[N]
r----g     #2 handle    has[N], of alice/
$others
rw----      2 of #5     alice/to-bob/
rwdnmg     #4 of -      alice/todo
rw----      4 of #4     bob/lent
r-----      3 of #4     bob/wine
rw----      4 open      has[N]
??????     #2 handle    1 more, asked for by has[N], of alice/
$others
caps: the right to look at others and the kernel is missing: who starts this program gives it by \`allow look PROGRAM\`
bob/lent
139"

add=(--add "$TEST_TMP/has")
guest 'cap dir lent; trace --rights sh -c "cap give todo lent/todo rw; with lent spy todo bank; run --only todo:r todo add no
    cap drop lent/todo; cap back todo; cap give todo lent/todo rw; has lent/todo lent \"cap drop lent/todo\"; with lent rm-container todo"; trace --print run --only todo todo add tea; trace --rights with lent sh -c "spy none"; trace --rights run --only todo:r spy todo'
output=$(sed -nE 's/.* says: //p; s/ +[0-9.]+ us before  /before: /p' <<<"$output"); pids
is_output "a trace says who was given, used, was refused and lost what; a story, by which right" \
"sh[N] gets a handle of grant #1 (todo): read, write, grant
sh[N] makes grant 5 of grant #1 (todo): read, write
sh[N] gets a handle of grant #7 (lent): read, write, delete, rename, manage, grant
spy[N] opens todo by a handle of grant 5: read
spy[N] opens todo by a handle of grant 5: read, write
sh[N] gets a handle of grant #1 (todo): read, grant
todo[N] is refused: grant #1 (todo) does not give write
sh[N] drops grant 5, and all that was given of it
sh[N] takes back all that was given of grant #1 (todo)
sh[N] gets a handle of grant #1 (todo): read, write, grant
sh[N] makes grant 6 of grant #1 (todo): read, write
has[N] opens todo by grant 6: read, write
has[N] gets a handle of grant #7 (lent): read, grant
sh[N] drops grant 6, and all that was given of it
has[N] loses todo: grant 6 was taken back
sh[N] gets a handle of grant #7 (lent): read, write, delete, rename, manage, grant
before: todo[N] opens todo by a handle of grant #1 (todo): read, write
sh[N] gets a handle of grant #7 (lent): read, write, delete, rename, manage, grant
sh[N] gets a handle of grant #1 (todo): read, grant
spy[N] opens todo by a handle of grant #1 (todo): read
spy[N] is refused: grant #1 (todo) does not give write"

add=()
guest 'cap drop; cap limit alice commit 3; cap limit alice pages -3; cap limit alice versions 7; cap alice; cap limit alice versions none
    cap give todo lent/second rg
    run --only lent/second --only todo sh -c "ls -l"; cap dir alice; cap ..; caps --help; rm-container --help | cat; echo --help; cap dir drop; cap drop
    cap --help'
output=$(sed '/^     cap [bdg]/d; /^      *r[ew]/d' <<<"$output")
use="use: cap [PATH]                   what a path of the store gives
     cap limit DIR pages MOST     so many for all containers below; or commits, in a
                                  second; or versions, old pages that snapshots
                                  keep; or names; MOST none: no limit"
what="sh: cap: a limit is of pages, commits, versions or names: a number, or none"
is_output "wrong words and half commands are told what there is; --help of each command; a shell with containers lists them" "$use
$what
$what
alice: a directory, read,write,delete,rename,manage,grant; grant #2
  at most 7 versions; now 0
r-----      7 of #1     second
rw----     #1 of -      todo
cap: alice: a container or directory of that name exists already: choose another name
cap: ..: that is no path of names: a name is not empty, \`.\` or \`..\`, and has no colon or control character and no mark of the store's log; slashes stand only between names: check the call
caps [PID]   what a process, or each, may do: its handles in words
rm-container NAME ...   deletes containers, for good
--help
drop: a directory, read,write,delete,rename,manage,grant; grant #8
$use"
# shellcheck disable=SC2016
guest 'cap limit alice pages 99999999999999999999; cap limit alice pages 18446744073709551615; cap limit alice pages 1x; cap limit "" pages 1x; cap alice
    with todo todo; run todo; with alice:rw sh -c "cap limit \"\" names 4; cap give \"\" x; cap drop \"\""; trace --print=x todo 2>/tmp/e || echo refused'
is_output "numbers that are none, or too large, are refused; a container is no root for with; an empty path is the root" "$what
$what
$what
$what
alice: a directory, read,write,delete,rename,manage,grant; grant #2
with: todo: this is a container, and no directory: \`run --only todo PROGRAM\`
- tea
- eggs
- milk
cap: this shell's root: $(lacks "this program's root directory" 'read and written' MANAGE 'MANAGE and GRANT' 'with DIR:rwm PROGRAM')
cap: this shell's root: $(lacks "this program's root directory" 'read and written' GRANT GRANT 'with DIR:rwg PROGRAM')
cap: this shell's root: that is no path of names: a name is not empty, \`.\` or \`..\`, and has no colon or control character and no mark of the store's log; slashes stand only between names: check the call
refused"
done_testing
