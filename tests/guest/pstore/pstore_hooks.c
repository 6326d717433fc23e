/*
 * pstore_hooks.c - functions that a transaction has run behind its end.
 *
 * Aim     each runs once, in order, outside the transaction, by how that ended; what a run that is
 *         done again registered counts as aborted.
 * Method  every function appends its letter to a line of text, which is compared; two of them look
 *         at the container in a transaction of their own.
 */
#include <setjmp.h>

#include "pstore_test.h"

struct root { long count; };

static ps_container *c;
static char said[128];

static void say(void *letter)
{
    strcat(said, letter);
    if (ps_active())
        strcat(said, "(inside)");
}

static int said_was(const char *wanted, const char *what)
{
    int same = strcmp(said, wanted) == 0;
    if (!same)
        printf("# said %s, wanted %s\n", said, wanted);
    said[0] = '\0';
    return tap_ok(same, "%s", what);
}

static int both(void *result)
{
    struct root *root = ps_root(c);
    if (!root || ps_on_commit(say, "a") || ps_on_abort(say, "x") || ps_on_commit(say, "b") ||
        ps_on_abort(say, "y"))
        return -errno;
    root->count++;
    return *(int *)result;
}

static int aborts(void *unused)
{
    int result = 0;
    (void)unused;
    both(&result);
    ps_abort(EINVAL);
}

static int reads(void *out)
{
    const struct root *root = ps_root(c);
    *(long *)out = root->count;
    return 0;
}

static void look(void *unused)
{
    long count = -1;
    (void)unused;
    int result = ps_transaction(reads, &count);
    snprintf(said + strlen(said), 16, "%d:%ld ", result, count);
}

static int looked_at(void *result)
{
    struct root *root = ps_root(c);
    int error = ps_on_commit(look, NULL) | ps_on_abort(look, NULL) | ps_on_commit(look, NULL);
    root->count += 10;
    return error ? error : *(int *)result;
}

/* ---- a run that is done again ---- */

static int runs;

static int make_name(void *unused)
{
    (void)unused;
    return ps_named(c, "twice", 32) ? 0 : -errno;
}

/* Its first run makes a name that another transaction makes meanwhile. */
static int meets_name(void *unused)
{
    int result =
        ps_on_abort(say, "x") | ps_on_abort(look, NULL) | ps_on_commit(say, runs ? "2" : "1");
    (void)unused;
    if (!ps_named(c, "twice", 32))
        return -errno;
    if (runs++ == 0) {
        ps_tx *own = ps_suspend();
        result |= ps_transaction(make_name, NULL) | ps_resume(own);
    }
    return result;
}

/* ---- a transaction whose frames are jumped over ---- */

static ps_tx *outer;

static int inner_body(void *unused)
{
    (void)unused;
    ps_on_abort(say, "i");
    ps_on_abort(look, NULL);
    ps_suspend();
    ps_resume(outer);
    ps_abort(EINVAL);
}

static int outer_body(void *unused)
{
    (void)unused;
    ps_on_abort(say, "o");
    outer = ps_suspend();
    return ps_transaction(inner_body, NULL);
}

/* ---- limits, explicit transactions ---- */

static int too_many(void *counted)
{
    int *n = counted, result;
    while ((result = ps_on_commit(say, ".")) == 0)
        ++*n;
    return result == -ENOSPC && ps_on_abort(say, "!") == -ENOSPC &&
                   ps_on_commit(NULL, NULL) == -EINVAL
               ? 0
               : 1;
}

static jmp_buf caught;

static void on_error(int error, void *unused)
{
    (void)unused;
    snprintf(said + strlen(said), 16, "caught %d", error == EBUSY);
    longjmp(caught, 1);
}

static void explicit_ones(void)
{
    int nothing = 0;
    is(ps_begin(NULL), 0, "an explicit transaction");
    both(&nothing);
    is(ps_commit(), 0, "is committed");
    said_was("ab", "its functions ran before ps_commit returned");
    ps_begin(NULL);
    both(&nothing);
    ps_rollback();
    said_was("xy", "and those of one that is rolled back");
    ps_catch(on_error, NULL);
    if (setjmp(caught) == 0) {
        ps_begin(NULL);
        both(&nothing);
        ps_abort(EBUSY);
    }
    said_was("xycaught 1", "they run before the handler of ps_catch");
}

int main(void)
{
    int nothing = 0, seven = 7, counted = 0;
    tap_plan(22);
    ps_delete("hooks");
    c = ps_open("hooks", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(ps_on_commit(say, "?"), -EPERM, "outside a transaction: EPERM");
    is(ps_transaction(both, &nothing), 0, "a commit");
    said_was("ab", "runs its functions once, in their order");
    is(ps_transaction(both, &seven), 7, "a body that gives up");
    said_was("xy", "runs the others");
    is(ps_transaction(aborts, NULL), -EINVAL, "ps_abort");
    said_was("xy", "does, too");
    is(ps_transaction(looked_at, &nothing), 0, "functions that begin transactions themselves");
    said_was("0:11 0:11 ", "see what was committed");
    is(ps_transaction(looked_at, &seven), 7, "or, behind an abort,");
    said_was("0:11 ", "that it was undone");
    is(ps_transaction(meets_name, NULL), 0, "a transaction runs twice");
    said_was("x0:11 2", "its first run counts as aborted, before the second begins");
    is(ps_transaction(outer_body, NULL), -EINVAL,
       "a transaction that was suspended in another is jumped over");
    said_was("i0:11 o", "its functions run, and then the other's");
    is(ps_transaction(too_many, &counted), 0, "a transaction takes not more than its functions");
    is(counted, 64, "which are 64");
    said[0] = '\0';
    explicit_ones();
    return tap_end();
}
