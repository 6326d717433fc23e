/* rights.c - who made, passed on, got and used which badge, one line each. */
#include <stdio.h>

#include "trace.h"

/* What the rights of a badge are, in words. */
static const char *rights_text(uint32_t rights)
{
    static char text[64];
    snprintf(text, sizeof text, "%s%s, own %x", rights & KD_RIGHT_CALL ? "call" : "no call",
             rights & KD_RIGHT_GRANT ? ", pass on" : "", rights / KD_RIGHT_OWN);
    return text;
}

static void say(const struct kd_trace_event *e, uint64_t start_ns)
{
    static const char *const words[] = {"made", "passed on", "got", "used", "ended"};
    unsigned what = e->c & 255, server = e->c >> 8, child = (unsigned)(e->b >> 32);
    if (what >= sizeof words / sizeof *words) return;
    printf("%12.3f ms  %s[%u] %s badge %llu of %s[%u]", (double)(e->time_ns - start_ns) / 1e6,
           process_name(e->process), e->process, words[what], (unsigned long long)e->a,
           process_name(server), server);
    if (child) printf(" to %s[%u]", process_name(child), child);
    if (what != KD_TRACE_ENDED) printf(": %s", rights_text((uint32_t)e->b));
    printf("\n");
}

int rights_print(const struct trace *t)
{
    size_t said = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->events[i].kind == KD_TRACE_BADGE) {
            say(&t->events[i], t->events[0].time_ns);
            said++;
        }
    if (!said) fprintf(stderr, "trace: nobody used a badge\n");
    return !said;
}
