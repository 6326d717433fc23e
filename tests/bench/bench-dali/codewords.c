/*
 * codewords.c - updates, readers and audits of the same tuples with PS_PROTECT_CODEWORDS.
 *
 * For -icount, one CPU and store.audit_kib=0: idle rounds of the auditor are no part of an update.
 */
#include <unistd.h>

#include "bench.h"
#include "store_protocol.h"

enum { LOCKS = 100 };

static int reads(void *arg)
{
    const int *mode = arg;
    for (unsigned i = 0; i < LOCKS; i++)
        if (!ps_access(tuple_of(i * 1000003ull), sizeof(struct tuple), *mode))
            return -errno;
    return 1;
}

/* A round of the auditor: instructions for each page in memory. */
static double audit(void)
{
    struct kd_message m = {.kind = STORE_AUDIT, .handle = -1};
    long port = kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    long e = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    uint64_t pages = m.word[1], t = busy();
    m = (struct kd_message){.kind = STORE_AUDIT, .word = {1}, .handle = -1};
    e = e ? e : kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (e || m.status || m.word[1] == pages)
        fail("an audit", e ? e : m.status ? m.status : -ENOENT);
    return (double)(busy() - t) / (double)(m.word[1] - pages);
}

void group_codewords(void)
{
    static const unsigned each[] = {1, 10, 100};
    double without[3];
    int plain = PS_S, checked = PS_S | PS_CHECK;
    for (int with = 0; with < 2; with++) {
        tuples_load(1000, 1);
        if (with)
            tuples_protect(PS_PROTECT_CODEWORDS);
        tuples_touch();
        for (unsigned i = 0; i < 3; i++) {
            double is = updates(each[i]);
            char name[80];
            snprintf(name, sizeof name, "with codewords: an update, %u in a transaction, flushed",
                     each[i]);
            if (with) {
                row(name, "instructions", is, "-");
                row("the same, of without", "times", is / without[i], "1.1");
            }
            without[i] = is;
        }
    }
    row("PS_CHECK of a tuple", "instructions",
        (median_cost(reads, &checked, 21, 1) - median_cost(reads, &plain, 21, 1)) / LOCKS, "-");
    row("the audit of a page", "instructions", audit(), "-");
}
