/* copy.c - store status, take-over, recast, backup: of one of two copies of a store (spare.md). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <katydid/call.h>
#include <pstore.h>

#include "../store/copy_protocol.h"
#include "sh.h"

static const char *const roles[] = {"starting", "home", "spare", "taking over", "out"};

static int ask(struct kd_message *m)
{
    long port = kd_call3(KD_NAME_FIND, (long)COPY_PORT, 0, 0);
    if (port < 0)
        return (int)port;
    long r = kd_call3(KD_PORT_CALL, port, (long)m, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return r < 0 ? (int)r : m->status;
}

static int failed(const struct io *io, const char *what, int error)
{
    dprintf(io->error, "store %s: %s\n", what,
            error == -ENOENT   ? "this store is no copy, or was refused (`dmesg`): "
                                 "scripts/run --pair makes it one of two"
            : error == -EBUSY  ? "this copy is home"
            : error == -EAGAIN ? "this copy is not home: it may lack what the other one has, or "
                                 "the other one is home, or the witness is not reached (`store "
                                 "status`): start that. If the other one is off for good: "
                                 "`store take-over --the-other-is-off`"
                               : ps_strerror(error == -EPERM ? ps_lacks(KD_RIGHT_DISKS) : error));
    return 1;
}

/* How far the other one is behind: a home's spare, or of a spare what it has not applied. */
static void lag(const struct io *io, const struct copy_status *s)
{
    typedef unsigned long long n;
    if (s->is == COPY_HOME && s->mate)
        dprintf(io->out, "lag          %llu bytes; %llu commits waited, %llu us each\n",
                s->other_end < s->end ? (n)(s->end - s->other_end) : 0ull, (n)s->waits,
                s->waits ? (n)(s->waited_us / s->waits) : 0ull);
    else if (s->is == COPY_SPARE)
        dprintf(io->out, "lag          %llu bytes not applied yet\n", (n)(s->end - s->applied));
}

static void recast(const struct io *io, const struct copy_recast *r)
{
    typedef unsigned long long n;
    if (!r->name[0])
        return;
    dprintf(io->out, "layout       %s: %llu pages, %llu times one was made%s\n", r->name,
            (n)r->pages, (n)r->converted, r->done ? "; put in" : r->all ? "; ready" : "");
    if (r->done)
        dprintf(io->out, "             that took %llu ms\n", (n)r->took_us / 1000);
    if (r->wrong)
        dprintf(io->out, "             %llu cannot be made, so page %llu, type %08x: %s\n",
                (n)r->wrong, (n)r->wrong_page, r->wrong_type, ps_strerror(r->error));
    else if (r->error)
        dprintf(io->out, "             there will be none: %s\n", ps_strerror(r->error));
}

static int status_ask(struct copy_status *s)
{
    struct kd_message m = {.kind = COPY_STATUS, .buffer = s, .buffer_bytes = sizeof(*s),
                           .handle = -1};
    return ask(&m);
}

/* settled tells whether the two are a pair, a home with its spare, as the witness knows; or whether
 * they cannot become one before this copy is made anew. */
static bool settled(const struct copy_status *s)
{
    return s->error || (s->named && (s->is == COPY_HOME || s->is == COPY_SPARE));
}

/* pair_wait asks until the copies are settled. A manager that starts again, in another role, is
 * away for a moment; one that has answered nothing for ten seconds does not come back. */
static int pair_wait(struct copy_status *s)
{
    enum { PAUSE_NS = 50000000, LOOKS = 200 };
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    int error = status_ask(s);
    for (int left = error ? 0 : LOOKS; left && (error || !settled(s));) {
        nanosleep(&pause, NULL);
        error = status_ask(s);
        left = error ? left - 1 : LOOKS;
    }
    return error;
}

/* store status [--wait]: what this copy is; or what it is as soon as the two are a pair. */
int store_status(const struct io *io, char **words)
{
    struct copy_status s;
    bool wait = words[0] && strcmp(words[0], "--wait") == 0;
    if (words[0] && (!wait || words[1])) {
        dprintf(io->error, "use: store status [--wait]\n");
        return 2;
    }
    int error = wait ? pair_wait(&s) : status_ask(&s);
    if (error)
        return failed(io, "status", error);
    dprintf(io->out, "role         %s%s%s\n", s.is <= COPY_OUT ? roles[s.is] : "?",
            s.is != COPY_HOME ? "" : s.frozen ? ", stands still" : s.named ? ", with a spare"
            : s.mate ? ", with a spare that catches up" : ", alone",
            s.asynchronous ? ", asynchronous" : "");
    dprintf(io->out, "term         %llu\n", (unsigned long long)s.term);
    dprintf(io->out, "sites        %s; the other copy %s (%s), witness %s (%s)\n", s.own, s.other,
            s.reached ? "reached" : "not reached", s.witness,
            s.witness_reached ? "reached" : "not reached");
    dprintf(io->out, "log          ends at %llu, %llu groups %s\n", (unsigned long long)s.end,
            (unsigned long long)s.groups, s.is == COPY_HOME ? "sealed" : "taken");
    lag(io, &s);
    if (s.untold)
        dprintf(io->out, "witness      has not heard of this home: the other machine stays off\n");
    if (s.took_us)
        dprintf(io->out, "took over    %llu ms after its last answer to the other one\n",
                (unsigned long long)s.took_us / 1000);
    recast(io, &s.recast);
    if (s.error)
        dprintf(io->out, "error        %s\n",
                s.error == -ESTALE
                    ? "the home's log has no more what this copy lacks: switch it off, and put a "
                      "copy of the home's store here (`store backup` there makes one)"
                    : ps_strerror(s.error));
    return wait && s.error;
}

int store_take_over(const struct io *io, char **words)
{
    bool off = words[0] && strcmp(words[0], "--the-other-is-off") == 0;
    if (words[0] && (!off || words[1])) {
        dprintf(io->error, "use: store take-over [--the-other-is-off]\n");
        return 2;
    }
    struct kd_message m = {.kind = COPY_TAKE_OVER, .word = {off}, .handle = KD_SYSTEM_HANDLE,
                           .handle_rights = KD_RIGHT_DISKS};
    int error = ask(&m);
    if (error)
        return failed(io, "take-over", error);
    dprintf(io->out, "this copy is home now\n");
    return 0;
}

/* store recast NAME LIKE: NAME gets the layout of LIKE, when this spare becomes home; - : none. */
int store_recast(const struct io *io, char **words)
{
    char names[2 * COPY_RECAST_BYTES], refused[48] = "";
    bool none = words[0] && strcmp(words[0], "-") == 0 && !words[1];
    if (!none && (!words[0] || !words[1] || words[2] || strlen(words[0]) >= COPY_RECAST_BYTES ||
                  strlen(words[1]) >= COPY_RECAST_BYTES)) {
        dprintf(io->error, "use: store recast NAME LIKE, or store recast -\n");
        return 2;
    }
    size_t bytes = none ? 0 : (size_t)snprintf(names, sizeof(names), "%s%c%s", words[0], 0,
                                               words[1]) + 1;
    struct kd_message m = {.kind = COPY_RECAST, .data = names, .data_bytes = bytes,
                           .buffer = refused, .buffer_bytes = sizeof(refused),
                           .handle = KD_SYSTEM_HANDLE, .handle_rights = KD_RIGHT_DISKS};
    int error = ask(&m);
    refused[sizeof(refused) - 1] = 0;
    if (error == -EAGAIN)
        dprintf(io->error, "store recast: this copy is no spare\n");
    else if (error == -ENODATA)
        dprintf(io->error, "store recast: one of the two is not described (ps_site_describe)\n");
    else if (error == -ENOENT)
        dprintf(io->error, "store recast: there is no %s, or no %s, in this store\n", words[0],
                words[1]);
    else if (error)
        dprintf(io->error, "store recast: %s%s%s\n", refused, refused[0] ? ": " : "",
                ps_strerror(error));
    return error ? 1 : 0;
}

/* The same of a spare, which has no port of the store's. */
int store_copy_backup(const struct kd_message *asked, struct kd_message *answer)
{
    struct kd_message m = *asked;
    m.kind = COPY_BACKUP;
    int error = ask(&m);
    *answer = m;
    return error;
}
