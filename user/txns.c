/*
 * txns.c - who runs transactions, who waits for whom, and what is locked.
 *
 *   txns          one line for each view, then the waits as "view -> view"; of a page of another
 *                 site's which site that is
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "katydid/call.h"
#include "pstore.h"
#include "sites/site_look.h"

static const char *const states[] = {"free", "idle", "active", "committing", "plain"};
static const char *const modes[] = {"serialisable", "snapshot", "dirty read", "container lock"};
static const char *const wants[] = {"read", "write", "read for write"};
static const char *const item_modes[] = {"S", "U", "X", "ADD", "IS", "IX", "OWN"};

static const char *name_of(const char *const *names, size_t count, uint64_t i)
{
    return i < count ? names[i] : "?";
}
#define NAME(names, i) name_of(names, sizeof names / sizeof names[0], i)

/* Its process's name, if it has one still. */
static const char *process_name(int pid)
{
    static struct kd_process_info all[128];
    long n = kd_call3(KD_PROCESS_LIST, (long)all, 128, 0);
    for (long i = 0; i < n && i < 128; i++)
        if (all[i].pid == pid)
            return all[i].name;
    return "?";
}

/* Of an address of another site's: that site. */
static void print_site(uint64_t address)
{
    static struct link_site all[SITE_LOOKS_MAX];
    static size_t count;
    const char *site;
    if (!count)
        count = sites_look(all);
    if ((site = site_of(all, count, address)))
        printf(" at site %s", site);
}

static void print_view(const struct kd_view_info *v)
{
    printf("%4llu  %-10s %5d %-12.12s", (unsigned long long)v->view, NAME(states, v->state), v->pid,
           process_name(v->pid));
    if (v->state == 2 || v->state == 3) {
        printf(" %s, ticket %llu", v->mode == KD_HOLDER ? "holder" : NAME(modes, v->mode),
               (unsigned long long)v->ticket);
        if (v->copies)
            printf(", %llu copies", (unsigned long long)v->copies);
        if (v->snapshot_csn)
            printf(", sees publication %llu", (unsigned long long)v->snapshot_csn);
        if (v->locked_count)
            printf(", has locked 0x%llx", (unsigned long long)v->locked);
        if (v->locked_count > 1)
            printf(" and %llu more", (unsigned long long)v->locked_count - 1);
        if (v->page)
            printf(", in the queue of 0x%llx to %s", (unsigned long long)v->page,
                   NAME(wants, v->want));
        if (v->page)
            print_site(v->page);
        if (v->item_mode)
            printf(", in the queue of entry %u in container 0x%llx, mode %s", v->item,
                   (unsigned long long)v->container, NAME(item_modes, v->item_mode - 1));
        else if (v->container)
            printf(", in the queue of container 0x%llx", (unsigned long long)v->container);
        if (v->doom)
            printf(", to be aborted: %s", strerror((int)v->doom));
    }
    putchar('\n');
}

static void print_waits(const struct kd_view_info *v)
{
    for (unsigned i = 0; i < 128; i++)
        if (v->waits[i / 64] >> i % 64 & 1)
            printf("%llu -> %u\n", (unsigned long long)v->view, i);
}

int main(int argc, char **argv)
{
    static struct kd_view_info all[KD_VIEW_MAX];
    if (argc > 1) {
        int help = argc == 2 && strcmp(argv[1], "--help") == 0;
        fputs("usage: txns\nPrints views, their transactions, locks and queues, and who waits for "
              "whom.\n",
              help ? stdout : stderr);
        return help ? 0 : 2;
    }
    long n = kd_call3(KD_VIEW_LIST, (long)all, KD_VIEW_MAX, 0);
    if (n < 0) {
        fprintf(stderr, "txns: %s\n", ps_strerror((int)n));
        return 1;
    }
    puts("view  state        pid program      transaction");
    for (long i = 0; i < n; i++)
        print_view(&all[i]);
    for (long i = 0; i < n; i++)
        print_waits(&all[i]);
    return 0;
}
