/*
 * bench-sqlite.c - what SQLite's statements cost on a container, in counted instructions and in
 * requests of the disk (tests/bench/sqlite.sh).
 *
 *     bench-sqlite     prints lines `name <tab> unit <tab> value <tab> reach`
 *
 * The loads are those of the figures for SQLite on Linux that stand beside: rows of 100 bytes among
 * 10,000, and 100,000 tuples of two integers. All processes and the kernel are counted, waiting for
 * the disk is not.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "sqlite3.h"

enum { ROWS = 10000, TUPLES = 100000, ROUNDS = 200, LOOKUPS = 1000 };

static sqlite3 *db;
static struct kd_system_info begun;
static uint64_t begun_at;

static uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static void begin(void)
{
    kd_call3(KD_SYSTEM_INFO, (long)&begun, 0, 0);
    begun_at = counter();
}

/* Prints a row for each unit that has a reach: of what was done `rounds` times since begin(). */
static void end(const char *name, double rounds, const char *instructions, const char *writes,
                const char *flushes)
{
    struct kd_system_info now;
    uint64_t at = counter();
    kd_call3(KD_SYSTEM_INFO, (long)&now, 0, 0);
    double busy = (double)(at - begun_at) - (double)(now.idle_cycles - begun.idle_cycles);
    printf("%s\tinstructions\t%.4g\t%s\n", name, busy / rounds, instructions);
    if (!writes)
        return;
    printf("%s\twrites\t%.4g\t%s\n", name,
           (double)(now.block_writes - begun.block_writes) / rounds, writes);
    printf("%s\tflushes\t%.4g\t%s\n", name,
           (double)(now.block_flushes - begun.block_flushes) / rounds, flushes);
}

static _Noreturn void fail(void)
{
    fprintf(stderr, "bench-sqlite: %s\n", sqlite3_errmsg(db));
    exit(1);
}

static void sql(const char *text)
{
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail();
}

static sqlite3_stmt *prepared(const char *text)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(db, text, -1, &s, NULL) != SQLITE_OK)
        fail();
    return s;
}

/* Runs it with this number; 1: there was a row. */
static int with(sqlite3_stmt *s, sqlite3_int64 number)
{
    sqlite3_bind_int64(s, 1, number);
    int result = sqlite3_step(s);
    if (sqlite3_reset(s) != SQLITE_OK)
        fail();
    return result == SQLITE_ROW;
}

static uint32_t drawn = 1;

static uint32_t draw(uint32_t below)
{
    drawn = drawn * 1664525 + 1013904223;
    return (drawn >> 8) % below;
}

static void rows(void)
{
    sql("create table r(a integer primary key, b text);"
        "with recursive n(i) as (select 1 union all select i+1 from n where i<10000)"
        " insert into r select i, hex(randomblob(50)) from n;");
    sqlite3_stmt *insert = prepared("insert into r values(?, hex(zeroblob(50)))");
    with(insert, ROWS + 1);
    begin();
    for (int i = 0; i < ROUNDS; i++)
        with(insert, ROWS + 2 + i);
    end("SQLite: INSERT of 100 bytes, 10,000 rows (on Linux, by WAL: 67724, 1, 1; journal: 10 "
        "writes, 4 flushes)", ROUNDS, "67724", "1", "1");
    sqlite3_stmt *update = prepared("update r set b = hex(randomblob(50)) where a = ?");
    with(update, 1);
    begin();
    for (int i = 0; i < ROUNDS; i++)
        with(update, 1 + draw(ROWS));
    end("SQLite: UPDATE of one of 10,000 rows", ROUNDS, "67724", "1.1", "1");
    sql("pragma synchronous=off");
    begin();
    for (int i = 0; i < ROUNDS; i++)
        with(insert, 2 * ROWS + i);
    end("SQLite: INSERT, synchronous=OFF", ROUNDS, "67724", "0.2", "0.2");
    sql("pragma synchronous=full");
    sqlite3_finalize(insert);
    sqlite3_finalize(update);
}

static void lookups(sqlite3_stmt *select, int count)
{
    for (int i = 0; i < count; i++)
        if (!with(select, draw(TUPLES)))
            fail();
}

static void tuples(void)
{
    sql("create table t(k integer primary key, v integer)");
    sqlite3_stmt *insert = prepared("insert into t values(?1, ?1 * 7)");
    begin();
    sql("begin");
    for (int i = 0; i < TUPLES; i++)
        with(insert, i);
    sql("commit");
    end("SQLite: INSERT of one of 100,000 tuples in one transaction (Linux: 4407)", TUPLES, "4407",
        "0.1", "0.0001");
    sqlite3_stmt *select = prepared("select v from t where k = ?");
    lookups(select, LOOKUPS);
    begin();
    lookups(select, LOOKUPS);
    end("SQLite: SELECT by key, a transaction each (Linux: 9271)", LOOKUPS, "9271", NULL, NULL);
    begin();
    for (int i = 0; i < LOOKUPS / 100; i++) {
        sql("begin");
        lookups(select, 100);
        sql("commit");
    }
    end("SQLite: SELECT by key, 100 in a transaction (Linux: 3358)", LOOKUPS, "3358", NULL, NULL);
    sqlite3_finalize(insert);
    sqlite3_finalize(select);
}

int main(void)
{
    if (sqlite3_open("bench-sqlite", &db) != SQLITE_OK)
        fail();
    sql("pragma cache_size = -16000");
    rows();
    tuples();
    return sqlite3_close(db) != SQLITE_OK;
}
