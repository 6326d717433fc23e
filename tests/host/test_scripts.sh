#!/bin/bash
# Tests of the small scripts and of the Makefile's promises, without booting anything.
# shellcheck source=scripts/tap.sh
. "$(dirname "$0")/../../scripts/tap.sh"
cd "$ROOT" || exit 1
unset YES MAKEFLAGS             # who runs the tests may have said yes to everything, also as `make YES=1 test`

# --- mksymbols: code of the higher half only, one name per address ---
table=$(scripts/mksymbols <<'EOF'
0000000000100000 T boot32
ffffffff80100000 T start
ffffffff80100000 t alias_of_start
ffffffff80100040 t helper
ffffffff80200000 R constant
EOF
)
is mksymbols_keeps_code_of_the_higher_half "0xffffffff80100000 0xffffffff80100040" \
    "$(grep -o '0xffffffff80[0-9a-f]*' <<<"$table" | xargs)"
is mksymbols_counts "2" "$(sed -n 's/.*\.long \([0-9]*\)/\1/p' <<<"$table")"
is mksymbols_of_nothing_is_an_empty_table "0" \
    "$(scripts/mksymbols </dev/null | sed -n 's/.*\.long \([0-9]*\)/\1/p')"

for program in scripts/mksymbols scripts/kvmcheck.py; do
    is "$program tells what it is for" "0 1" "$("$program" --help >"$TEST_TMP/help" </dev/null; echo "$? $(grep -c "  .*$program" "$TEST_TMP/help")")"
    ok "$program refuses what it does not know" bash -c '! "$1" --nonsense </dev/null 2>/dev/null' _ "$program"
done
ok make_help_names_the_store bash -c 'make help STORE=my.store | grep -q "remove my.store, after" && ! make help | grep -F "\$("'

# --- setup: on a machine that has bash and nothing else ---
bin=$TEST_TMP/bin
mkdir -p "$bin"
ln -s "$(command -v bash)" "$(command -v id)" "$bin"
setup_output=$(PATH=$bin bash scripts/setup build 2>&1)
setup_status=$?
is setup_without_apt_fails 1 "$setup_status"
ok setup_names_the_packages grep -q 'gcc binutils.*musl-tools' <<<"$setup_output"

printf '#!/bin/bash\necho "apt $*" >>"%s"\n' "$TEST_TMP/called" >"$bin/apt-get"
printf '#!/bin/bash\necho 1000\n' >"$TEST_TMP/id"
chmod +x "$bin/apt-get" "$TEST_TMP/id"
ln -s "$(command -v env)" "$bin/env"
mv "$TEST_TMP/id" "$bin/id.new" && mv "$bin/id.new" "$bin/id"
setup_output=$(PATH=$bin bash scripts/setup build </dev/null 2>&1)
is setup_without_root_or_sudo_fails 1 $?
ok setup_prints_the_line_to_type grep -q 'apt-get install -y .*musl-tools' <<<"$setup_output"
ok setup_installed_nothing_then test ! -e "$TEST_TMP/called"

printf '#!/bin/bash\necho 0\n' >"$bin/id"
PATH=$bin bash scripts/setup build </dev/null >/dev/null 2>&1
ok setup_as_root_without_terminal_installs grep -q 'apt install.*musl-tools' "$TEST_TMP/called"
ok setup_of_nonsense_fails bash -c '! scripts/setup nonsense 2>/dev/null'

# --- a store is safe from make ---
store=$TEST_TMP/my.store
echo precious >"$store"
ok clean_never_names_a_store bash -c '! make -n clean STORE="$1" | grep -q store' _ "$store"
ok reset_store_without_an_answer_keeps_it \
    bash -c '! make reset-store STORE="$1" </dev/null && test -e "$1"' _ "$store"
ok reset_store_asks_and_no_keeps_it \
    bash -c '! echo n | make reset-store STORE="$1" && test -e "$1"' _ "$store"
ok reset_store_asks_and_yes_removes_it \
    bash -c 'echo y | make reset-store STORE="$1" && test ! -e "$1"' _ "$store"

# --- katydid-cc links the library of today ---
mkdir -p "$TEST_TMP/old/build/obj/guest" "$TEST_TMP/old/kernel" && cp -rp scripts libpstore Makefile "$TEST_TMP/old"
cp -rp kernel/include "$TEST_TMP/old/kernel" && cp -rp build/obj/guest/libpstore "$TEST_TMP/old/build/obj/guest"  # to save time
(cd "$TEST_TMP/old" && ar rcs build/libpstore.a && touch -d 2000-01-01 build/libpstore.a)
echo 'int ps_newest(void); int ps_newest(void) { return 7; }' >"$TEST_TMP/old/libpstore/newest.c"
echo 'int ps_newest(void); int main(void) { return ps_newest(); }' >"$TEST_TMP/newest.c"
ok katydid_cc_builds_the_library_again_when_it_is_old \
    "$TEST_TMP/old/scripts/katydid-cc" "$TEST_TMP/newest.c" -o "$TEST_TMP/newest"

ln -s "$TEST_TMP/old/scripts/katydid-cc" "$TEST_TMP/cc" && ln -s "$TEST_TMP/old/scripts" "$TEST_TMP/tools"
ok katydid_cc_is_called_by_a_link "$TEST_TMP/cc" "$TEST_TMP/newest.c" -o "$TEST_TMP/newest"
ok katydid_cc_is_called_in_a_folder_that_is_a_link "$TEST_TMP/tools/katydid-cc" "$TEST_TMP/newest.c" -o "$TEST_TMP/newest"

# --- pstore.h in C++; katydid-cc with several files and libraries, and with C++ ---
cat >"$TEST_TMP/header.cc" <<'EOF'
#include <pstore.h>
struct item { item *next; long n; };
static ps_container *c;
static int add(void *)
{
    item *i = ps_new(c, item, ps_root(c));
    return i ? ps_on_commit([](void *) {}, nullptr) : -errno;
}
int main()
{
    static const ps_field fields[] = {PS_FIELD(item, next), PS_FIELD(item, n), {nullptr, 0, 0}};
    c = ps_open("items", PS_CREATE | PS_WRITE, PS_LAYOUT(struct item, 1));
    return ps_describe("item", fields) | ps_transaction(add, nullptr);
}
EOF
for standard in c++11 c++20; do
    ok "pstore_h_compiles_as_$standard" g++ -std=$standard -Wall -Wextra -Werror -pedantic \
        -Ilibpstore -fsyntax-only "$TEST_TMP/header.cc"
done
echo 'double half(double x); double half(double x) { return x / 2; }' >"$TEST_TMP/half.c"
cat >"$TEST_TMP/parts.c" <<'EOF'
#include <math.h>
#include <pstore.h>
double half(double x);
int main(int argc, char **argv) { (void)argv; return half(cbrt(argc)) > 1 && ps_active(); }
EOF
ok katydid_cc_takes_several_files_and_a_library \
    scripts/katydid-cc "$TEST_TMP/parts.c" "$TEST_TMP/half.c" -lm -o "$TEST_TMP/parts"
printf '#include <pstore.h>\nint node_init(void) { return 1; }\nint tree_step(void) { return 2; }\nint heap_alloc(void) { return 3; }\nint main(void) { return !ps_open("x", 0, 0) - node_init() + tree_step() - heap_alloc(); }\n' >"$TEST_TMP/names.c"
ok a_program_may_use_the_names_that_the_library_has_inside scripts/katydid-cc "$TEST_TMP/names.c" -o "$TEST_TMP/names"
if cxx_output=$(scripts/katydid-cc "$TEST_TMP/header.cc" -o "$TEST_TMP/header" 2>&1); then
    ok katydid_cc_makes_a_program_of_cpp test -x "$TEST_TMP/header"
else
    ok katydid_cc_says_why_there_is_no_cpp grep -q 'no C++ library for musl' <<<"$cxx_output"
fi

# --- crash in a tree where nothing is built ---
mkdir -p "$TEST_TMP/tree/tests" && cp -r scripts "$TEST_TMP/tree" && cp -r tests/crash "$TEST_TMP/tree/tests"
crash_output=$("$TEST_TMP/tree/scripts/crash" 1 2>&1)
is crash_without_a_build_fails 1 "$?"
ok crash_names_what_is_missing grep -q 'missing: .*build/host/kreplay' <<<"$crash_output"
ok crash_names_the_target grep -q 'make crash' <<<"$crash_output"

# --- help ---
for script in bench crash cut katydid-cc lines lint mkiso places.py plots run setup source test trace2json; do
    ok "${script}_has_help" bash -c 'help=$(scripts/$1 --help </dev/null) && grep -q "scripts/$1" <<<"$help"' _ "$script"
done
for target in run test check debug bench plots lint clean reset-store; do
    ok "help_lists_$target" bash -c 'make help | grep -q "^make $1 "' _ "$target"
done

# --- katydid-cc outside the tree (needs the library, or only the compiler with -c) ---
printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' >"$TEST_TMP/hello.c"
ok katydid_cc_compiles bash -c 'command -v musl-gcc >/dev/null || exit 0
    cd "$1" && "$2/scripts/katydid-cc" -c hello.c -o hello.o' _ "$TEST_TMP" "$ROOT"

# --- .ci ---
ok ci_calls_make_test grep -q 'exec make test$' .ci/run

done_testing
