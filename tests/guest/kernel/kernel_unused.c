/*
 * kernel_unused.c - an object is destroyed if nobody uses it, and then nothing is lost.
 *
 * Aim     KD_OBJECT_DESTROY with "only if unused" refuses, and changes nothing, while a client is
 *         attached, a page is not home, a commit is under way, or a snapshot sees an old version;
 *         after that the object goes, its handle with it, and a new one at the same place shows
 *         what was committed.
 * Method  this process is manager and client. Commits are held back by the manager, so that the
 *         client can be detached while one is under way.
 */
#define PAGES 64
#include "own_manager.h"

static int put(void *value)
{
    *word_of(0, 0) = (uint64_t)value;
    return 0;
}
static int look(void *out)
{
    *(uint64_t *)out = *word_of(0, 0);
    return 0;
}
static int share(void *out)
{
    look(&(uint64_t){0});
    *(int *)out = (int)kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    return 0;
}

static long destroy(void) { return kd_call3(KD_OBJECT_DESTROY, object, 1, 0); }
static long attach(void)
{
    return kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE);
}
static long detach(void) { return kd_call3(KD_SPACE_DETACH, getpid(), object, 0); }
static void clean(void) { kd_call3(KD_OBJECT_CLEANED, object, 0, (long)next_csn - 1); }

static void *commit_slowly(void *result)
{
    *(int *)result = run(put, (void *)2, KD_SERIALISABLE, 0);
    return NULL;
}

static void test_commit_under_way(void)
{
    pthread_t t;
    int committed = -1;
    hold_commits = 1;
    pthread_create(&t, NULL, commit_slowly, &committed);
    while (!held_commits) usleep(1000);
    clean(); /* the version before: the commit's is not there yet */
    tap_ok(detach() == 0 && destroy() == -EBUSY,
           "not while a commit is under way, though nobody is attached");
    hold_commits = 0;
    pthread_join(t, NULL);
    tap_ok(committed == 0 && destroy() == -EBUSY, "the commit succeeds, and its page is not home");
}

static void test_snapshot(void)
{
    int shared = -1;
    tap_ok(attach() == 0 &&
               run_like(share, &shared, &(struct kd_begin){ .mode = KD_SNAPSHOT }) == 0 &&
               shared >= 0 && run(put, (void *)3, KD_SERIALISABLE, 0) == 0,
           "a snapshot is shared, and the page changed behind it");
    clean();
    tap_ok(detach() == 0 && destroy() == -EBUSY, "not while the snapshot needs the old version");
    kd_call3(KD_HANDLE_CLOSE, shared, 0, 0);
}

static void test_destroyed(void)
{
    uint64_t value = 0;
    long gone = destroy();
    tap_ok(gone == 0 && destroy() == -EBADF && check() == 0, "then it goes, and its handle: %ld",
           gone);
    struct kd_object_create c = { .port = port, .commit_port = commit_port,
                                  .flags = KD_OBJECT_TRANSACTIONAL, .cookie = 7, .base = base,
                                  .pages = PAGES,
                                  .name = "again" };
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    tap_ok(object >= 0 && attach() == 0 && run(look, &value, KD_SERIALISABLE, 0) == 0 && value == 3,
           "a new one at its place has what was committed");
}

int main(void)
{
    tap_plan(10);
    tap_ok(start_manager((struct own_manager){.pages = PAGES}) &&
           run(put, (void *)1, KD_SERIALISABLE, 0) == 0, "an object and a commit");
    tap_ok(kd_call3(KD_OBJECT_DESTROY, object, 2, 0) == -EINVAL, "0 or 1");
    tap_ok(destroy() == -EBUSY, "not while a client is attached");
    detach();
    tap_ok(destroy() == -EBUSY, "not while a page is not home");
    attach();
    test_commit_under_way();
    test_snapshot();
    test_destroyed();
    return tap_end();
}
