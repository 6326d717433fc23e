#!/bin/bash
# SQLite on a container: reboots, power cuts, requests of the disk, several users at once (tests/sqlite/users.c), SQLite's own
# programs speedtest1 and mptest, and planted bugs (tests/bugs/sqlite), which these must find. SEED=N repeats a run of another seed.
# Waits: for locks of files, which SQLite asks for again and again.
STATES=3
# shellcheck source=tests/system/power-cuts.sh
. "$(dirname "$0")/power-cuts.sh"
SQLITE_SRC=${SQLITE_SRC:-$(scripts/source sqlite --where)}
[ -e build/user/sqlite ] && [ -e "$SQLITE_SRC/sqlite3.c" ] || { echo "1..0 # skip without SQLite's source (scripts/source sqlite)"; exit 0; }
[ "${BUILT_TREE:-}" = "$ROOT" ] && [ -e build/sqlite/libsqlite3.a ] || make -s build/sqlite/libsqlite3.a || echo "Bail out! no libsqlite3.a"
STEPS=40 IN=$TEST_TMP/in
mkdir -p "$IN"

# build NAME VFS SOURCE...: a program with SQLite, with this vfs.c and the tree's chunks.c.
build() {
    local name=$1 vfs=$2
    shift 2
    scripts/katydid-cc -w -O1 -Ibuild/sqlite -Iuser/sqlite "$@" "$vfs" user/sqlite/chunks.c \
        build/obj/guest/sqlite/sqlite3.o -o "$TEST_TMP/$name" || echo "Bail out! no $name"
}
build speedtest1 user/sqlite/vfs.c "$SQLITE_SRC/speedtest1.c"
build users user/sqlite/vfs.c tests/sqlite/users.c

requests() { sed -nE "s/^real .* ([0-9]+) $1.*/\1/p" <<<"$output"; }

# --- the shell; over a reboot ---
WITH=(--import "$IN")
guest --store "$TEST_TMP/store" -c 'sqlite db "create table t(a integer primary key, b text); insert into t(b) values(\"one\"); select * from t";
    sqlite db "insert into t values(1, 2)"; echo $?; todo add x; sqlite todo "select 1";
    sqlite db ".restore /import/db"; echo "insert into t(b) values(\"two\");" | sqlite db'
is "statements come from the command line and from a pipe; errors are told" '1|one
Error: stepping, UNIQUE constraint failed: t.a (19)
19
sqlite: todo: the layout does not match: XX
Error: unable to open database "todo": unable to open database file
sqlite: /import/db: files are opened as file:/NAME?vfs=unix-none
Error: cannot open "/import/db"' "$(sed 's/\(layout does not match: \).*/\1XX/' <<<"$output")"
guest --store "$TEST_TMP/store" -c 'sqlite typo "select 1; select name from sqlite_master"; sqlite typo "pragma user_version; begin; select 2; commit"; containers'
is "a database that is only looked at is not made" "1 0 2 0" "$(head -n 3 <<<"$output" | tr '\n' ' ')$(grep -c typo <<<"$output")"
guest --store "$TEST_TMP/store" -c 'sqlite db "select a, b from t; pragma locking_mode=exclusive; pragma integrity_check; drop table t; vacuum; pragma page_count"'
is "and are there after a reboot" "1|one
2|two
normal
ok
1" "$output"

rows=1500 size=12M
[ "$TEST_TIER" != long ] || rows=3000 size=24M
many="insert into big with n(i) as (select 1 union all select i + 1 from n where i < $rows) select randomblob(3000) from n;"
printf '%s\n' 'create table big(b);' "$many" 'begin;' 'insert into big values(1);' 'select count(*) from big;' "$many" 'commit;' \
    'select count(*) from big;' 'insert into big values(2);' 'select count(*) from big; pragma integrity_check;' >"$IN/full.sql"
guest --store "$TEST_TMP/full" --store-size $size -c 'sqlite db </import/full.sql'
is "new pages go past the log; of old ones, more than half the log are refused as a whole" \
    "$((rows + 1)) full $rows $((rows + 1)) ok" \
    "$(sed 's/^Runtime error .* database or disk is full (13)$/full/; /no transaction is active$/d' <<<"$output" | paste -sd' ')"

# --- several users; SQLite's own programs ---
WITH=(--add "$TEST_TMP/users" --add "$TEST_TMP/speedtest1")
together='users; users add 100 & users add 100; wait; sqlite users "select v from t where k = 1; pragma integrity_check"'
guest --allow all --store "$TEST_TMP/large" --store-size 256M -c "$together;
    speedtest1 --size 1 --verify speed; speedtest1 --size 1 --verify --vfs unix-none /tmp/speed; sqlite speed 'pragma integrity_check'"
RIGHT='right 87
277
ok'
is "readers see one state and wait for nobody, one writes, and the dead leave no lock" "$RIGHT" "$(grep -v '^\[\|^init: \|^sqlite: ' <<<"$output" | head -n 3)"
is "speedtest1 has the same results as on a file" 2 "$(grep -c '^Verification Hash' <<<"$output")"
is "all of them" 1 "$(grep '^Verification Hash' <<<"$output" | sort -u | wc -l)"
is "and leaves a whole database" ok "$(grep -v '^\[\|^init: \|^sqlite: ' <<<"$output" | tail -n 1)"
if [ "$TEST_TIER" = long ]; then
    for ((n = 0; n < 20; n++)); do
        echo "with n(i) as (select $((n * 1000 + 1)) union all select i + 1 from n where i < $((n * 1000 + 1000)))" \
            "insert into t select i, randomblob(4000) from n;"
    done >"$IN/large.sql"
    echo "update t set v = zeroblob(4000) where k % 16 = 0; select count(*), sum(length(v)) from t; pragma integrity_check;" >>"$IN/large.sql"
    WITH=(--import "$IN")
    guest --timeout 900 --memory 48 --store "$TEST_TMP/larger" --store-size 1G \
        -c 'sqlite db "create table t(k integer primary key, v)" "create index tv on t(substr(v, 1, 8))" ".read /import/large.sql"'
    is "a database is larger than memory" "20000|80000000 ok" "${output//$'\n'/ }"
    cp "$SQLITE_SRC/mptest/"*test "$IN/"
    sed -i 's/^--wait all$/--wait all 600000/' "$IN"/*test        # a slow host is no error
    echo 'int sqlite3_enable_load_extension(void *db, int on) { return db && on ? 0 : 0; }' >"$TEST_TMP/none.c"
    build mptest user/sqlite/vfs.c "$SQLITE_SRC/mptest/mptest.c" "$TEST_TMP/none.c"
    WITH=(--add "$TEST_TMP/mptest" --import "$IN")
    guest --timeout 2400 --store "$TEST_TMP/large" -c 'mptest mp /import/multiwrite01.test --trace 0 --sync;
        mptest mp1 /import/crash01.test --trace 0; mptest mp2 /import/config02.test --trace 0'
    good=$(grep -c '^Summary: 0 errors out of [1-9]' <<<"$output")
    [ "$good" = 3 ] || tail -n 30 <<<"$output" | sed 's/^/# /'
    is "mptest: six processes in one database, some die in a transaction, page sizes change" 3 "$good"
fi

# --- requests of the disk, and power cuts ---
cat >"$IN/begin.sql" <<'END'
create table t(n integer primary key, body text, half integer);
create index th on t(half, n);
create table sums(name text primary key, total integer) without rowid;
insert into sums values('n', 0), ('bytes', 0);
create trigger tt after insert on t begin
    update sums set total = total + new.n where name = 'n';
    update sums set total = total + length(new.body) where name = 'bytes';
end;
END
cat >"$IN/check.sql" <<'END'
select 'step ' || count(*) || ': ' || iif(count(*) = ifnull(max(n), 0) and ifnull(sum(n), 0) = (select total from sums where name = 'n')
    and ifnull(sum(length(body)), 0) = (select total from sums where name = 'bytes')
    and not exists (select 1 from t where body <> printf('%0*d', n * 37 % 700 + 1, n) or half <> n / 2), 'equal', 'DIFFERENT')
    || ', ' || (select group_concat(integrity_check) from pragma_integrity_check) from t;
END
for ((n = 1; n <= STEPS; n++)); do
    echo "insert into t values($n, printf('%0*d', $n * 37 % 700 + 1, $n), $n / 2); select 'ack $n';"
    ((n % 8)) || echo "begin; pragma cache_size = 5; delete from t; update sums set total = -1; rollback;"
done >"$IN/steps.sql"
WITH=(--import "$IN")
CHECK='sqlite db ".read /import/check.sql"' STEP='s/^step ([0-9]+): equal, ok$/\1/p'
guest --store "$BASE" -c "sqlite db '.read /import/begin.sql'; $CHECK"
is "the table begins empty" "step 0: equal, ok" "$output"
recorded "time sqlite db '.read /import/steps.sql'; $CHECK"
is "each INSERT is committed" "$STEPS step $STEPS: equal, ok" "$(grep -c '^ack' <<<"$output") $(tail -n 1 <<<"$output")"
ok "by a flush each, and by a write each, but for checkpoints: $(requests flushes), $(requests writes)" \
    test "$(requests flushes)" -ge $STEPS -a \
    "$(requests writes)" -le $((STEPS + 10 + 4 * ($(requests flushes) - STEPS)))
KEEPS=none
[ "${TEST_TIER:-test}" = long ] || STATES=1
cuts 0 $STEPS

# --- planted bugs: the users, or their flushes, tell ---
planted=(tests/bugs/sqlite/*.patch)     # in make test one of them, another one each day
[ "$TEST_TIER" = long ] || planted=("${planted[$(($(date +%s) / 86400 % ${#planted[@]}))]}")
for patch in "${planted[@]}"; do
    bug=$(basename "$patch" .patch) folder=$TEST_TMP/bug
    mkdir -p "$folder/user/sqlite"
    cp user/sqlite/vfs.c "$folder/user/sqlite/"
    (cd "$folder" && patch -s -p1 <"$ROOT/$patch") || echo "Bail out! $bug does not apply"
    build users "$folder/user/sqlite/vfs.c" tests/sqlite/users.c
    WITH=(--add "$TEST_TMP/users")
    guest --allow all --store "$TEST_TMP/$bug" --timeout 12 -c "$together; time users add 20"
    ok "the bug $bug is found: $(requests flushes) flushes for 20 commits, $(grep -m 1 '^wrong\|did not end' <<<"$output")" \
        test "$(requests flushes)0" -lt 200 -o "$(grep -v '^\[\|^init: \|^sqlite: ' <<<"$output" | head -n 3)" != "$RIGHT"
done
done_testing
