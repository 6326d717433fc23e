/*
 * sites.c - the clocks of other sites, as the frames between the sites tell them.
 *
 * Each frame carries its sender's clock, and link knows how long it took there and back. So half of
 * that after its sender's clock said `their_ns`, ours said `heard_ns`; that is wrong by half of the
 * round trip at most. scripts/trace2json puts traces of several guests on one line of time by it.
 * An idle session says a BEAT sixteen times in a second: several are looked at, since one of them
 * may have been held up.
 */
#include <stdio.h>
#include <time.h>

#include "trace.h"

#include "user/sites/link.h"

enum { LOOKS = 12, LOOK_NS = 20000000 };

/* What link says: how many sites lie in `all`, this one first; 0: this machine is none. */
static size_t look(struct link_site *all, size_t room)
{
    struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .buffer_bytes = room * sizeof *all,
                           .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)LINK_NAME, 0, 0);
    bool answered = port >= 0 && kd_call3(KD_PORT_CALL, port, (long)&m, 0) == 0 && !m.status;
    if (port >= 0)
        (void)kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return answered ? m.buffer_bytes / sizeof *all : 0;
}

void sites_write(void *file)
{
    static struct link_site all[LINK_SITES_MAX + 1];
    uint64_t last[LINK_SITES_MAX + 1] = {0};
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    size_t count = look(all, LINK_SITES_MAX + 1);
    if (!count)
        return;
    fprintf(file, "site\t%s\n", all[0].site);
    for (int n = 0; n < LOOKS; n++) {
        for (size_t i = 1; i < count; i++) {
            const struct link_site *s = &all[i];
            if (s->state == LINK_LIVE && s->round_trip_ns && s->heard_ns != last[i])
                fprintf(file, "clock\t%s\t%llu\t%llu\t%llu\n", s->site,
                        (unsigned long long)s->their_ns, (unsigned long long)s->heard_ns,
                        (unsigned long long)s->round_trip_ns);
            last[i] = s->heard_ns;
        }
        nanosleep(&pause, NULL);
        count = look(all, LINK_SITES_MAX + 1);
    }
}
