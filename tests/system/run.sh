#!/bin/bash
# What scripts/run promises: output, exit status, reasons, disks. The programs are made here, by
# scripts/katydid-cc, so the shell in the guest only has to start them.
# Runs once: the options of scripts/run.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1

# program NAME: a user program from the C text on stdin.
program() {
    cat >"$TEST_TMP/$1.c"
    (cd "$TEST_TMP" && "$ROOT/scripts/katydid-cc" "$1.c" -o "$1") || echo "Bail out! no $1"
}

# run OPTIONS...: sets output, errors and status.
run() {
    status=0
    output=$(scripts/run "$@" 2>"$TEST_TMP/stderr") || status=$?
    errors=$(cat "$TEST_TMP/stderr")
}

program hello <<'EOF'
#include <stdio.h>
int main(int argc, char **argv) { return printf("hello %s\n", argc > 1 ? argv[1] : "nobody") < 0; }
EOF
program seven <<'EOF'
int main(void) { return 7; }
EOF
program wild <<'EOF'
#include <stdio.h>
static void store_at(int *p)
{
    *p = 1; /* line 4 */
}
int main(void)
{
    int *volatile nowhere = (int *)0x123456789000;
    store_at(nowhere);
    puts("survived");
}
EOF
program text <<'EOF'
#include <stdio.h>
static void show(const char *s)
{
    printf("it is %s\n", s); /* line 4 */
}
int main(int count, char **words)
{
    show(words[0] + (1l << 44) * count); /* line 8 */
    return 0;
}
EOF
program half <<'EOF'
#include <stdio.h>
int main(void)
{
    fputs("half a line", stdout);
    fflush(stdout);
    for (;;)
        ;
}
EOF
program spin <<'EOF'
#include <stdio.h>
int main(void)
{
    puts("spinning now");
    fflush(stdout);
    for (volatile int i = 0;; i++)
        ;
}
EOF
program copy <<'EOF'
#include <stdio.h>
int main(int argc, char **argv)
{
    FILE *in = fopen(argv[1], "r"), *out = argc > 2 ? fopen(argv[2], "w") : stdout;
    if (!in || !out)
        return 1;
    for (int c; (c = getc(in)) != EOF;)
        putc(c, out);
    return fclose(out) != 0;
}
EOF
head -c 3000 "$TEST_TMP/hello" >"$TEST_TMP/cut-off"

# --- output and status ---
run --no-store --add "$TEST_TMP/hello" --add "$TEST_TMP/seven" -c 'seven; hello world'
is command_prints_only_its_output "hello world" "$output"
is good_command_ends_with_0_whatever_was_before 0 "$status"
is quiet_on_stderr "" "$errors"
run --no-store --add "$TEST_TMP/hello:greet" --add "$TEST_TMP/seven" --append one=1 --append 'two=2 three=3' --verbose -c 'greet a; seven'
is program_can_be_renamed "hello a" "$output"
is status_is_that_of_the_last_command 7 "$status"
ok append_may_be_given_twice_and_all_its_words_reach_the_kernel grep -q -- '-append .*one=1 two=2 three=3' <<<"$errors"
run --no-store --add "$TEST_TMP/cut-off" -c 'cut-off 2>/tmp/o; echo $?; no-such-program 2>/tmp/o'
is unknown_program_ends_with_127 127 "$status"
ok cut_off_program_is_refused test "$output" -ne 0 -a "$output" -lt 120 -o "$output" -gt 125

# --- reasons ---
run --no-store --add "$TEST_TMP/text" --add "$TEST_TMP/wild" -c 'text; wild'
ok wild_store_kills_the_program test "$status" -ge 128
ok wild_store_is_shown_with_its_source_line grep -q 'wild\.c:4' <<<"$errors"
is wild_store_ends_it "" "$output"
ok fault_in_the_library_names_its_function grep -qE '^ +memchr$' <<<"$errors"
ok fault_in_the_library_shows_who_called_it grep -q 'show at .*text\.c:4' <<<"$errors"
ok fault_in_the_library_shows_the_callers_of_that grep -q 'main at .*text\.c:8' <<<"$errors"
run --no-store --cpus 2 --add "$TEST_TMP/spin" --timeout 2 -c spin
is hang_ends_by_timeout 124 "$status"
ok timeout_names_each_cpu grep -q 'CPU 1: rip' <<<"$errors"
scripts/run --no-store --add "$TEST_TMP/half" --timeout 60 --kill-on 'half a line' -c half >"$TEST_TMP/half.out" 2>&1
is kill_on_text_ends_with_0 0 $?
ok a_line_that_kill_on_cuts_off_is_not_ended test "$(tail -c 1 "$TEST_TMP/half.out")" = 'e'
run --no-store --add "$TEST_TMP/hello" --kill-on 'no such text' -c 'hello c'
is kill_on_text_that_never_comes_is_an_error 121 "$status"

# --- disks ---
mkdir -p "$TEST_TMP/in/deep"
seq 1 9999 >"$TEST_TMP/in/deep/numbers"
run --no-store --add "$TEST_TMP/copy" --import "$TEST_TMP/in" --export "$TEST_TMP/out" \
    -c 'copy /import/deep/numbers /export/copied'
is copy_from_import_to_export_succeeds "0 $errors" "$status "
ok exported_file_is_equal cmp "$TEST_TMP/in/deep/numbers" "$TEST_TMP/out/copied"
run --import "$TEST_TMP/nowhere" -c hello
is missing_import_folder_is_refused 120 "$status"

# With each disk QEMU's tables take more of the end of RAM, up to under the initrd, which stays where it is.
for pad in 0 10240; do
    head -c $pad /dev/zero >"$TEST_TMP/pad"
    run --store-size 64M --store2 "$TEST_TMP/second" --import "$TEST_TMP/in" --export "$TEST_TMP/out" \
        --cpus 1 --add "$TEST_TMP/pad" -c 'echo up'
    is "four_disks_and_an_initrd_that_ends_in_mid_page_$pad" "0 up " "$status $output $errors"
done

store=$TEST_TMP/store
run --store "$store" --store-size 256M --record "$TEST_TMP/log" --add "$TEST_TMP/hello" -c 'hello d'
is blank_store_is_made_and_used "0 hello d" "$status $output"
is new_store_has_the_size_asked_for 268435456 "$(stat -c %s "$store")"
ok record_holds_writes_and_flushes \
    bash -c 'list=$(scripts/cut "$1" --list) && grep -q write <<<"$list" && grep -q flush <<<"$list"' \
    _ "$TEST_TMP/log"
scripts/run --store "$store" --add "$TEST_TMP/spin" --timeout 60 -c spin >"$TEST_TMP/first" 2>&1 &
first=$!
for _ in $(seq 500); do
    grep -q spinning "$TEST_TMP/first" && break
    sleep 0.1
done
run --store "$store" -c true
is store_in_use_is_refused 120 "$status"
ok store_in_use_is_said_plainly grep -q 'in use by another QEMU' <<<"$errors"
kill "$first"
wait "$first"

typed=$(printf 'echo hi\nhalt\n' | scripts/run --no-store --timeout 60 2>"$TEST_TMP/stderr" | tr -d '\r')
ok keys_that_come_before_the_shell_is_up_are_all_there grep -qx hi <<<"$typed"

today=$(date -u +%F)
run --timeout 20 -c 'cat; echo "it ends: $?"; date'
is "nobody types into -c: what reads finds an end of file" "it ends: 0" "${output%%$'\n'*}"
output=${output#*$'\n'}
is "the guest knows the date" yes "$([[ $output == "$today "* || $output == "$(date -u +%F) "* ]] && echo yes || echo "no: $output")"
mapfile -t benches < <(for each in tests/bench/*.c tests/bench/*/; do basename "$each" .c; done)
run --no-store --timeout 60 -c "$(printf '%s --help && echo good; ' "${benches[@]}")"
is "each bench program says how it is used instead of measuring" "${#benches[@]} ${#benches[@]}" \
    "$(grep -c '^usage: ' <<<"$output") $(grep -c '^good' <<<"$output")"

run --seed 1 -c date
is "a run that repeats begins in 1970" "1970-01-01" "${output%% *}"
done_testing
