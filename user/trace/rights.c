/*
 * rights.c - who made, passed on, got and used which badge, and who did what by which grant of the
 * store, one line each.
 *
 * Grants are told as `ls -l` does: `#N`, the first one of container N, or the serial of a link; and
 * with the path of their entry, if there is one when the trace ends. A badge of a store manager is
 * a handle: the event that gave it out says of which grant.
 */
#include <stdio.h>
#include <string.h>

#include "pstore.h"
#include "trace.h"

enum { TEXT_BYTES = 768, FIRST_BIT = 63 };

/* Of a badge's handle: own rights are those of the store in its badges. */
static const char *rights_text(uint32_t rights)
{
    static char text[64];
    snprintf(text, sizeof text, "%s%s, own %x", rights & KD_RIGHT_CALL ? "call" : "no call",
             rights & KD_RIGHT_GRANT ? ", pass on" : "", rights / KD_RIGHT_OWN);
    return text;
}

/* Of a grant. */
static const char *grant_rights(uint32_t rights)
{
    static const char *const words[] = {"read", "write", "delete", "rename", "manage", "grant"};
    static char text[64];
    uint32_t set = rights / KD_RIGHT_OWN | (rights & KD_RIGHT_GRANT ? PS_MAY_GRANT : 0);
    size_t n = 0;
    strcpy(text, "nothing");
    for (unsigned i = 0; i < 6; i++)
        if (set >> i & 1)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", words[i]);
    return text;
}

/* `grant #1 (todo)`. */
static const char *grant_text(uint64_t serial)
{
    static char text[2][320];
    static int turn;
    const char *path = grant_path(serial);
    turn = !turn;
    snprintf(text[turn], sizeof text[0], "grant %s%llu%s%s%s", serial >> FIRST_BIT ? "#" : "",
             (unsigned long long)(serial & ~(1ull << FIRST_BIT)), path ? " (" : "",
             path ? path : "", path ? ")" : "");
    return text[turn];
}

/* By its first entry. */
static const char *container_text(uint32_t container)
{
    static char text[320];
    const char *path = grant_path((1ull << FIRST_BIT) | container);
    snprintf(text, sizeof text, "container %u", container);
    return path ? path : text;
}

/* As events have it in an upper half. */
static uint64_t serial_of(uint32_t part)
{
    return part & KD_TRACE_FIRST ? (1ull << FIRST_BIT) | (part & ~KD_TRACE_FIRST) : part;
}

const char *grant_story(const struct kd_trace_event *e)
{
    static char text[TEXT_BYTES];
    unsigned what = e->c & 255, client = e->c >> 8;
    uint32_t rights = (uint32_t)e->b, more = (uint32_t)(e->b >> 32);
    const char *grant = grant_text(e->a);
    int n = snprintf(text, sizeof text, "%s[%u] ", process_name(client), client);
    char *at = text + n;
    size_t room = sizeof text - (size_t)n;
    switch (what & ~(unsigned)KD_TRACE_BY_HANDLE) {
    case KD_TRACE_OPENED:
        snprintf(at, room, "opens %s by %s%s: %s", container_text(more),
                 what & KD_TRACE_BY_HANDLE ? "a handle of " : "", grant, grant_rights(rights));
        break;
    case KD_TRACE_HANDED:
        snprintf(at, room, "gets a handle of %s: %s", grant, grant_rights(rights));
        break;
    case KD_TRACE_LINKED:
        snprintf(at, room, "makes %s of %s: %s", grant, grant_text(serial_of(more)),
                 grant_rights(rights));
        break;
    case KD_TRACE_DROPPED:
        snprintf(at, room, "drops %s, and all that was given of it", grant);
        break;
    case KD_TRACE_TAKEN_BACK:
        snprintf(at, room, "takes back all that was given of %s", grant);
        break;
    case KD_TRACE_LOST_IT:
        snprintf(at, room, "loses %s: %s was taken back", container_text(more), grant);
        break;
    case KD_TRACE_DELETED: snprintf(at, room, "deletes container %u by %s", more, grant); break;
    case KD_TRACE_REFUSED:
        if (rights)
            snprintf(at, room, "is refused: %s does not give %s", grant, grant_rights(rights));
        else
            snprintf(at, room, "is refused: request %u", more);
        break;
    default: snprintf(at, room, "does %u by %s", what, grant);
    }
    return text;
}

/* The grant of which a badge's handle is, if it was given out meanwhile. */
static uint64_t grant_of_badge(const struct trace *t, uint64_t number)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct kd_trace_event *e = &t->events[i];
        if (e->kind == KD_TRACE_GRANT && (e->c & 255) == KD_TRACE_HANDED &&
            e->b >> 32 == (uint32_t)number)
            return e->a;
    }
    return 0;
}

static void say_badge(const struct trace *t, const struct kd_trace_event *e)
{
    static const char *const words[] = {"made", "passed on", "got", "used", "ended"};
    unsigned what = e->c & 255, server = e->c >> 8, child = (unsigned)(e->b >> 32);
    uint64_t grant = grant_of_badge(t, e->a);
    if (what >= sizeof words / sizeof *words) return;
    printf("%s[%u] %s badge %llu of %s[%u]", process_name(e->process), e->process, words[what],
           (unsigned long long)e->a, process_name(server), server);
    if (child) printf(" to %s[%u]", process_name(child), child);
    if (what != KD_TRACE_ENDED) printf(": %s", rights_text((uint32_t)e->b));
    if (grant) printf("; %s", grant_text(grant));
}

int rights_print(const struct trace *t)
{
    size_t said = 0;
    for (size_t i = 0; i < t->count; i++) {
        const struct kd_trace_event *e = &t->events[i];
        if (e->kind != KD_TRACE_BADGE && e->kind != KD_TRACE_GRANT)
            continue;
        printf("%12.3f ms  ", (double)(e->time_ns - t->events[0].time_ns) / 1e6);
        if (e->kind == KD_TRACE_BADGE)
            say_badge(t, e);
        else
            printf("%s[%u] says: %s", process_name(e->process), e->process, grant_story(e));
        printf("\n");
        said++;
    }
    if (!said) fprintf(stderr, "trace: nobody used a badge, or a grant of the store\n");
    return !said;
}
