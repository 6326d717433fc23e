/*
 * kernel_old.c - a snapshot asks its manager for the version that it needs (KD_OBJECT_VERSIONS).
 *
 * Aim     what is not here is asked for with the snapshot's number, and seen at that number alone:
 *         by all snapshots that have it, by no later one, not even of the same view, and by no
 *         transaction; it goes with the last of them; what is here is read without a right.
 * Method  own_manager.h, whose pages say which state they are of: the number that they were asked
 *         with. A reader's view, another one's and a writer's in one thread.
 */
enum { PAGES = 256, AWAY = 10, HERE = 20, MANY = 100, FEW = 2 };
#include "own_manager.h"

static struct context reader, other, writer;
static uint64_t wrong;
static _Atomic uint64_t asked, asked_number;
static _Atomic bool refuses, expires;

/* The state of a page that a snapshot with this number sees. */
static uint64_t state_of(uint64_t number) { return 1000000 + number; }

static long supply(uint64_t page, uint64_t at, uint32_t number, const void *memory, uint32_t source)
{
    struct kd_supply s = {.object = object, .source = source, .number = number, .page = page,
                          .count = 1, .csn = at, .memory = memory};
    return kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

static bool hears(struct kd_message *m)
{
    static uint64_t contents[KD_PAGE_BYTES / 8];
    if (m->kind != (uint32_t)KD_MSG_PAGE || !(m->word[3] & KD_PAGE_OLD))
        return false;
    asked++;
    asked_number = m->word[7];
    wrong += m->word[2] != 1 || m->word[3] != (KD_READ | KD_PAGE_OLD);
    contents[0] = state_of(m->word[7]);
    kd_call6(KD_OBJECT_FAIL, object, (long)m->word[1], 1, EIO, 0, 0); /* for all: not for it */
    if (refuses)
        kd_call6(KD_OBJECT_FAIL, object, (long)m->word[1], 1, ESTALE, (long)m->word[6], 0);
    else
        wrong += supply(m->word[1], m->word[7], (uint32_t)m->word[6], contents,
                        KD_SUPPLY_MEMORY | KD_SUPPLY_OLD) != 0 && !expires;
    return true;
}

static void tick(void)
{
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_MEMORY | KD_SUPPLY_NEWER};
    wrong += kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) != 0;
}

static int write_word(void *arg)
{
    *word_of(((uint64_t *)arg)[0], 0) = ((uint64_t *)arg)[1];
    return 0;
}

static int read_word(void *arg)
{
    wrong += *word_of(((uint64_t *)arg)[0], 0) != ((uint64_t *)arg)[1];
    return 0;
}

static void publish(uint64_t page, uint64_t value)
{
    in_view(&writer);
    wrong += run(write_word, (uint64_t[]){page, value}, KD_SERIALISABLE, 0) != 0;
}

static void gone(uint64_t page)
{
    kd_call3(KD_OBJECT_CLEANED, object, (long)page, (long)KD_CSN_ANY);
    kd_call4(KD_OBJECT_ADVISE, object, (long)page, 1, KD_ADVISE_EVICT);
    wrong += page_resident(page);
}

/* Its number, or -errno. */
static long begin(struct context *c, long handle)
{
    long e = txn_open(c, (struct kd_begin){.mode = KD_SNAPSHOT, .snapshot = (int32_t)handle + 1});
    return e ? e : (long)c->begin.csn;
}

/* What it sees there; -errno: it is ended for it. */
static long sees(struct context *c, uint64_t page)
{
    in_view(c);
    int reason = setjmp(c->env);
    return reason ? -reason : (long)*word_of(page, 0);
}

static void end(struct context *c)
{
    struct kd_commit k = {.port = -1};
    in_view(c);
    wrong += kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0) != 0;
}

/* ---- tests ---- */

static void away(void)
{
    publish(AWAY, 50);
    gone(AWAY);
    long at = begin(&reader, -1);
    is(sees(&reader, AWAY), (long)state_of((uint64_t)at), "a page that is away is asked for as of");
    tap_ok(asked == 1 && asked_number == (uint64_t)at, "the snapshot's number");
    in_view(&writer);
    is(run(read_word, (uint64_t[]){AWAY, 50}, KD_SERIALISABLE, 0), 0,
       "a transaction has the page as it is");
    publish(AWAY, 51);
    is(sees(&reader, AWAY), (long)state_of((uint64_t)at), "the snapshot sees its own still");
    is((long)system_info().versions, 2, "beside the one that was superseded meanwhile");
    end(&reader);
    tap_ok(system_info().versions == 0 && check() == 0, "both go with it");
}

/* Two at one point, and a later one of the view that was at the first. */
static void shared(void)
{
    gone(AWAY);
    asked = 0;
    long at = begin(&reader, -1);
    long handle = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    is(sees(&reader, AWAY), (long)state_of((uint64_t)at), "one snapshot asks");
    is(begin(&other, handle), at, "another one begins at its point");
    is(sees(&other, AWAY), (long)state_of((uint64_t)at), "and sees the same");
    is((long)asked, 1, "without a question");
    end(&reader);
    is((long)system_info().versions, 1, "the version stays when the first has ended");
    is(kd_call3(KD_SNAPSHOT_SHARE, handle + 1, 0, 0), 1, "the point is somebody's");
    tick();
    long later = begin(&reader, -1);
    tap_ok(later > at && check() == 0, "no pages are newer: a later one has another number");
    is(sees(&reader, AWAY), (long)state_of((uint64_t)later),
       "the same view sees nothing of the point before");
    is(sees(&other, AWAY), (long)state_of((uint64_t)at), "which the other one sees still");
    end(&other);
    end(&reader);
    is(kd_call3(KD_SNAPSHOT_SHARE, handle + 1, 0, 0), 0, "the point is nobody's but the handle's");
    is((long)system_info().versions, 1, "for which its version stays");
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    tap_ok(system_info().versions == 0 && check() == 0, "and goes with it");
}

/* What came behind it is not what it sees; what is not to be had ends it. */
static void newer(void)
{
    static uint64_t contents[KD_PAGE_BYTES / 8] = {77};
    gone(AWAY);
    long at = begin(&reader, -1);
    is(supply(AWAY, 0, 0, contents, KD_SUPPLY_MEMORY | KD_SUPPLY_NEWER), 0, "a newer one comes");
    is(sees(&reader, AWAY), (long)state_of((uint64_t)at), "the snapshot asks for its own");
    end(&reader);
    begin(&reader, -1);
    is(sees(&reader, AWAY), 77, "the next one sees what is here");
    end(&reader);
    at = begin(&reader, -1);
    is(supply(AWAY + 1, (uint64_t)at, 0, contents, KD_SUPPLY_MEMORY | KD_SUPPLY_OLD), 0,
       "a version may come unasked");
    is(sees(&reader, AWAY + 1), 77, "and is seen");
    refuses = true;
    is(sees(&reader, AWAY + 2), -ESTALE, "without one the snapshot ends");
    refuses = false;
    tick();
    begin(&reader, -1); /* of another number */
    is(supply(AWAY, (uint64_t)at, 0, contents, KD_SUPPLY_MEMORY | KD_SUPPLY_OLD), 0,
       "the current one serves");
    is(supply(AWAY + 3, (uint64_t)at, 0, contents, KD_SUPPLY_MEMORY | KD_SUPPLY_OLD), -ESRCH,
       "for a number that no snapshot has there is none");
    is(supply(AWAY + 3, (uint64_t)at, 0, contents, KD_SUPPLY_ZERO | KD_SUPPLY_OLD), -EINVAL,
       "it is no page of zeros");
    is(supply(PAGES, (uint64_t)at, 0, contents, KD_SUPPLY_MEMORY | KD_SUPPLY_OLD), -EINVAL,
       "nor one that the object has not");
    end(&reader);
    tap_ok(system_info().versions == 0 && check() == 0, "no version is left");
}

/* A page that is called back while a transaction uses it. */
static void called(void)
{
    uint64_t users[2];
    publish(HERE, 60);
    txn_open(&writer, (struct kd_begin){.mode = KD_SERIALISABLE});
    in_view(&writer);
    wrong += *word_of(HERE, 0) != 60;
    is(kd_call6(KD_OBJECT_RECALL, object, HERE, 1, KD_RECALL_DROP, (long)users, 0), 1,
       "a page that is used is called back");
    asked = 0;
    uint64_t before = asked_alone;
    begin(&reader, -1);
    tap_ok(sees(&reader, HERE) == 60 && asked == 0 && asked_alone == before,
           "a snapshot reads it without a question");
    end(&reader);
    end(&writer);
}

/* One that keeps more versions than it may. */
static void expired(void)
{
    static const uint64_t few[2] = {FEW, FEW};
    long saw = 0;
    kd_call4(302, 0, KD_RLIMIT + KD_LIMIT_VERSIONS, (long)few, 0); /* prlimit64 */
    begin(&reader, -1);
    expires = true;
    for (uint64_t page = MANY; page < MANY + 4 * FEW && saw >= 0; page++)
        saw = sees(&reader, page);
    is(saw, -ESTALE, "a snapshot that has expired asks once more, and ends");
    expires = false;
    tap_ok(system_info().versions == 0 && check() == 0, "with all that it kept");
}

int main(void)
{
    tap_plan(35);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .flags = KD_OBJECT_VERSIONS,
                                              .messages = hears}),
           "an object whose manager has old versions");
    away();
    shared();
    newer();
    called();
    expired();
    tap_ok(wrong == 0, "nothing failed on the way (%lu)", wrong);
    return tap_end();
}
