/*
 * users.c - several users of one database: what each sees, who gets SQLITE_BUSY, and what a user
 * that dies leaves behind (tests/system/sqlite.sh).
 *
 *     users            plays all scenes; prints `right N`, or a line for each wrong result
 *     users add N      adds 1 to a counter N times, by transactions of one statement
 *
 * The other users are processes that are told by a pipe what to do, one statement at a time, and
 * answer with its result; so no scene depends on time.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "katydid/call.h"
#include "sqlite3.h"

static int right, wrong;

/* ---- one user ---- */

/* The result code, or of a statement with a row: what its first value is as a number. */
static long run(sqlite3 *db, const char *text)
{
    sqlite3_stmt *s = NULL;
    long value = -1000;
    int result = sqlite3_prepare_v2(db, text, -1, &s, NULL);
    while (result == SQLITE_OK && (result = sqlite3_step(s)) == SQLITE_ROW) {
        value = sqlite3_column_int64(s, 0);
        if (value == 0 && strcmp((const char *)sqlite3_column_text(s, 0), "ok") == 0)
            value = 1;
        result = SQLITE_OK;
    }
    if (result != SQLITE_DONE)
        value = sqlite3_extended_errcode(db);
    else if (value == -1000)
        value = 0;
    sqlite3_finalize(s);
    return value;
}

static sqlite3 *opened(const char *name)
{
    sqlite3 *db;
    if (sqlite3_open(name, &db) != SQLITE_OK)
        exit(3);
    run(db, "pragma busy_timeout = 0");
    return db;
}

struct user { int pid, to, from; };

static _Noreturn void serve(const char *name, int from, int to)
{
    sqlite3 *db = opened(name);
    char text[256];
    long value;
    while (read(from, text, sizeof text) == sizeof text && text[0]) {
        value = run(db, text);
        if (write(to, &value, sizeof value) != sizeof value)
            break;
    }
    _exit(sqlite3_close(db));
}

static struct user user(const char *name)
{
    int to[2], from[2];
    if (pipe(to) || pipe(from))
        exit(3);
    int pid = fork();
    if (pid == 0)
        serve(name, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    return (struct user){ pid, to[1], from[0] };
}

static void tell(struct user u, const char *text)
{
    char line[256] = {0};
    snprintf(line, sizeof line, "%s", text);
    if (write(u.to, line, sizeof line) != sizeof line)
        exit(3);
}

static long answer(struct user u)
{
    long value = -2000;
    return read(u.from, &value, sizeof value) == sizeof value ? value : -2000;
}

static void leave(struct user u, int killed)
{
    if (killed)
        kill(u.pid, SIGKILL);
    else
        tell(u, "");
    close(u.to);
    close(u.from);
    waitpid(u.pid, NULL, 0);
}

static void expect(const char *what, long got, long wanted)
{
    if (got == wanted)
        right++;
    else
        printf("wrong: %s: %ld, not %ld\n", what, got, wanted);
    wrong += got != wanted;
}

/* Says it to the user and looks at the answer. */
static void says(struct user u, const char *text, long wanted)
{
    tell(u, text);
    expect(text, answer(u), wanted);
}

/* ---- the scenes ---- */

static void one_writes(struct user a, struct user b)
{
    says(a, "create table t(k integer primary key, v)", 0);
    says(a, "insert into t values(1, 10), (2, 20)", 0);
    says(a, "begin immediate", 0);
    says(a, "update t set v = 11 where k = 1", 0);
    says(b, "select v from t where k = 1", 10);         /* readers wait for nobody */
    says(b, "update t set v = 12 where k = 1", SQLITE_BUSY);
    says(b, "begin immediate", SQLITE_BUSY);
    says(b, "begin", 0);
    says(b, "select v from t where k = 1", 10);
    says(a, "commit", 0);                               /* nor makes a reader a writer wait */
    says(b, "select v from t where k = 1", 10);         /* one state, up to its end */
    says(b, "update t set v = v + 1 where k = 1", SQLITE_BUSY_SNAPSHOT);
    says(b, "select v from t where k = 1", 10);
    says(b, "rollback", 0);
    says(b, "update t set v = v + 1 where k = 1", 0);
    says(a, "select v from t where k = 1", 12);
}

static void rollbacks(struct user a, struct user b)
{
    says(a, "pragma cache_size = 10", 0);               /* so pages are written before the commit */
    says(a, "create table big(k integer primary key, v blob)", 0);
    says(a, "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) "
            "insert into big select i, randomblob(3000) from n", 0);
    says(a, "begin", 0);
    says(a, "update big set v = zeroblob(3000)", 0);
    says(b, "select count(*) from big where v = zeroblob(3000)", 0);
    says(b, "insert into t values(9, 9)", SQLITE_BUSY);
    says(a, "savepoint s", 0);
    says(a, "delete from big where k % 2", 0);
    says(a, "rollback to s", 0);
    says(a, "select count(*) from big where v = zeroblob(3000)", 300);
    says(a, "rollback", 0);
    says(a, "select count(*) from big where v = zeroblob(3000)", 0);
    says(a, "insert into big select k + 100, zeroblob(3000) from big where k > 100",
         SQLITE_CONSTRAINT_PRIMARYKEY);                 /* after a hundred rows */
    says(a, "select count(*) from big", 300);
    says(b, "delete from big where k > 20", 0);
    says(b, "vacuum", 0);
    says(b, "pragma page_count", 23);
    says(a, "pragma integrity_check", 1);
    says(a, "select sum(length(v)) from big", 60000);
}

static void death(struct user a, const char *name)
{
    struct user c = user(name);
    says(c, "begin immediate", 0);
    says(c, "insert into t values(50, 50)", 0);
    says(a, "insert into t values(51, 51)", SQLITE_BUSY);
    leave(c, 1);
    says(a, "insert into t values(52, 52)", 0);
    says(a, "select count(*) from t where k between 50 and 52", 1);
    c = user(name);
    says(c, "pragma cache_size = 10", 0);
    says(c, "begin", 0);
    says(c, "update big set v = randomblob(30000)", 0); /* written, but for the commit */
    leave(c, 1);
    says(a, "pragma integrity_check", 1);
    says(a, "select sum(length(v)) from big", 60000);
}

/* Who waits gets its turn when the other one has ended. */
static void waits(struct user a, struct user b)
{
    says(b, "pragma busy_timeout = 100000", 100000);
    says(a, "begin immediate", 0);
    tell(b, "update t set v = 77 where k = 1");
    says(a, "update t set v = 66 where k = 1", 0);
    says(a, "commit", 0);
    expect("it waited", answer(b), 0);
    says(a, "select v from t where k = 1", 77);
}

/* Opening a database waits for nobody, also when a writer's cache was full and it has made the
 * database longer. */
static void opening(const char *name)
{
    struct user a = user(name);
    says(a, "pragma cache_size = 1", 0);
    says(a, "begin immediate", 0);
    says(a, "create table long as with n(i) as (select 1 union all select i + 1 from n where"
            " i < 100) select zeroblob(4000) from n", 0);
    sqlite3 *x = opened(name), *y = opened(name);
    expect("x reads beside a", run(x, "select v from t where k = 2"), 20);
    says(a, "rollback", 0);
    leave(a, 0);
    expect("x begins", run(x, "begin immediate"), 0);
    expect("x has a full cache", run(x, "pragma cache_size = 1"), 0);
    expect("x makes it longer", run(x, "create table long as with n(i) as (select 1 union all"
           " select i + 1 from n where i < 100) select zeroblob(4000) from n"), 0);
    sqlite3_close(y);
    y = opened(name);
    expect("y reads beside x", run(y, "select v from t where k = 2"), 20);
    expect("x goes back", run(x, "rollback"), 0);
    sqlite3_close(x);
    sqlite3_close(y);
}

/* Two connections of one thread; two databases of one connection. */
static void one_thread(const char *name)
{
    sqlite3 *x = opened(name), *y = opened(name);
    expect("x begins", run(x, "begin immediate"), 0);
    expect("x writes", run(x, "update t set v = 5 where k = 2"), 0);
    expect("y reads", run(y, "select v from t where k = 2"), 20);
    expect("y cannot write", run(y, "insert into t values(60, 60)"), SQLITE_BUSY);
    expect("x goes on", run(x, "select v from t where k = 2"), 5);
    expect("x commits", run(x, "commit"), 0);
    expect("y sees it", run(y, "select v from t where k = 2"), 5);
    expect("y attaches", run(y, "attach 'users-other' as o"), 0);
    expect("y makes a table in each", run(y, "create table if not exists o.t(k)"), 0);
    expect("y begins", run(y, "begin"), 0);
    expect("y writes here", run(y, "insert into main.t values(61, 61)"), 0);
    expect("y writes there", run(y, "insert into o.t values(61)"), 0);
    expect("y cannot commit both", run(y, "commit"), SQLITE_IOERR);
    expect("nothing is there", run(y, "select count(*) from o.t"), 0);
    expect("nor here", run(x, "select count(*) from t where k = 61"), 0);
    expect("y writes one", run(y, "insert into o.t values(61)"), 0);
    expect("x sees it is whole", run(x, "pragma integrity_check"), 1);
    sqlite3_close(x);
    sqlite3_close(y);
}

static int add(const char *name, int count)
{
    sqlite3 *db;
    int failed = sqlite3_open(name, &db);
    for (int i = 0; i < count && !failed; i++)
        failed = run(db, "update t set v = v + 1 where k = 1") != 0;
    if (failed)
        printf("wrong: %s\n", sqlite3_errmsg(db));
    return failed;
}

/* The store manager dies in a transaction, with a lock held and pages written: that fails, and the
 * next ones find the manager that init has started. */
static void manager(void)
{
    enum { MANAGER = 2, TRIES = 100000 };               /* the first process that init starts */
    struct user a = user("users-dead");
    says(a, "pragma cache_size = 10", 0);
    says(a, "create table d(v)", 0);
    says(a, "begin", 0);
    says(a, "insert into d with n(i) as (select 1 union all select i + 1 from n where i < 99)"
            " select randomblob(3000) from n", 0);
    while (kd_call3(KD_PROCESS_KILL, MANAGER, SIGKILL, 0) == 0) /* until it is gone */
        sched_yield();
    tell(a, "commit");
    expect("a commit without its manager", answer(a) & 0xff, SQLITE_IOERR);
    long count = SQLITE_IOERR;
    for (int i = 0; i < TRIES && (count & 0xff) == SQLITE_IOERR; i++) {
        tell(a, "select 1000 + count(*) from d");
        count = answer(a);
    }
    expect("with the next manager", count, 1000);
    says(a, "insert into d values(1)", 0);
    says(a, "select count(*) from d", 1);
    leave(a, 0);
}

int main(int argc, char **argv)
{
    const char *name = "users";
    if (argc == 3 && strcmp(argv[1], "add") == 0)
        return add(name, atoi(argv[2]));
    struct user a = user(name), b = user(name);
    one_writes(a, b);
    rollbacks(a, b);
    death(a, name);
    waits(a, b);
    leave(a, 0);
    leave(b, 0);
    opening(name);
    one_thread(name);
    manager();
    if (!wrong)
        printf("right %d\n", right);
    return wrong != 0;
}
