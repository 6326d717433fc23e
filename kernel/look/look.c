/*
 * look.c - the kernel's tables as text, for people: KD_LOOK.
 *
 * Each line is made under the lock of what it tells about and of nothing else, so a text is true
 * line by line and not as a whole. It ends when the buffer is full.
 */
#include "file/file.h"
#include "message/message.h"
#include "process/handle.h"
#include "process/vm.h"
#include "store/store.h"

#define LOOK_BYTES_MAX (1ul << 20) /* VM_REGIONS_MAX lines */

struct text {
    char *bytes;
    size_t used, size; /* size: without the zero behind it */
};

static __attribute__((format(printf, 2, 3))) void say(struct text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (t->used < t->size)
        t->used += (size_t)vsnprintk(t->bytes + t->used, t->size + 1 - t->used, format, arguments);
    t->used = MIN(t->used, t->size);
    va_end(arguments);
}

/* ---- memory objects ---- */

static void say_objects(struct text *t)
{
    objects_each(o) {
        struct kd_space_info i = object_info(o, 0);
        struct object_use u = object_use(o);
        say(t, "0x%012lx %8lu pages, %6lu resident, %5lu dirty, %4lu being written, %4lu old "
            "versions, %3u users, %u sequential, %u clustered, %u random touches%s%s  %s\n",
            i.base, i.pages, u.resident, u.dirty, u.written, u.versions, u.users,
            u.touches[TOUCH_SEQUENTIAL], u.touches[TOUCH_CLUSTERED], u.touches[TOUCH_RANDOM],
            i.flags & KD_OBJECT_TRANSACTIONAL ? "" : ", plain", u.dead ? ", dead" : "", i.name);
    }
}

/* ---- locks ---- */

static void say_locks(struct text *t)
{
    say(t, "%-14s %9s %14s %10s %10s %14s %10s\n", "lock", "waits", "cycles waited", "longest",
        "holds", "cycles held", "longest");
    for (const struct lock_count *c = lock_counts; c < lock_counts + LOCK_NAMES_MAX && c->name; c++)
        say(t, "%-14s %9lu %14lu %10lu %10lu %14lu %10lu\n", c->name, c->waited.times,
            c->waited.cycles, c->waited.longest, c->held.times, c->held.cycles, c->held.longest);
}

/* ---- a process ---- */

static bool entry_count(pte_t *pte, vaddr_t at, void *arg)
{
    (void)at;
    *(uint64_t *)arg += pte_present(*pte);
    return true;
}

static void say_region(struct text *t, struct process *p, const struct region *r, uint64_t resident)
{
    char name[64] = "";
    if (r->source.node && node_path(r->source.node, name, sizeof(name)) < 0)
        strlcpy(name, "(removed)", sizeof(name));
    say(t, "0x%012lx - 0x%012lx %c%c%c %8lu KiB, %6lu resident  %s\n", r->start, r->end,
        r->protection & VM_READ ? 'r' : '-',
        r->protection & VM_WRITE ? 'w' : '-', r->protection & VM_EXECUTE ? 'x' : '-',
        (r->end - r->start) / 1024, resident * 4,
        r->source.node            ? name
        : r->end == VM_END        ? "[stack]"
        : r->start == p->brk.start ? "[heap]" : "");
}

/* A portion of the regions from *at on; *resident: pages of the first one before that. False: those
 * were the last. space_lock held. */
static bool say_regions(struct text *t, struct process *p, vaddr_t *at, uint64_t *resident)
{
    enum { AT_ONCE = 10 };
    struct region *r = region_after(p, *at);
    for (uint64_t n = 0; r && n < AT_ONCE; *resident = 0) {
        *at = arch_pte_walk(p->home.table, MAX(*at, r->start), r->end, entry_count, resident);
        if (*at < r->end)
            break;
        say_region(t, p, r, *resident);
        n += 1 + *resident / 512;
        r = r->link.next == &p->regions ? NULL : container_of(r->link.next, struct region, link);
    }
    return r;
}

static void say_map(struct text *t, struct process *p)
{
    vaddr_t at = 0;
    uint64_t resident = 0;
    for (bool more = true; more; thread_breathe()) {
        lock_acquire(&p->space_lock);
        more = say_regions(t, p, &at, &resident);
        lock_release(&p->space_lock);
    }
    lock_acquire(&p->attach_lock);
    for (unsigned i = 0; i < p->attachment_count; i++) {
        struct kd_space_info o = attachment_info(p->attachments[i]);
        say(t, "0x%012lx - 0x%012lx r%c- %8lu KiB  container %s\n", o.base,
            o.base + (o.pages << PAGE_SHIFT), o.rights & KD_RIGHT_WRITE ? 'w' : '-',
            o.pages * 4, o.name);
    }
    lock_release(&p->attach_lock);
    lock_acquire(&p->windows.lock);
    for (const struct mapping *m = p->windows.table; m < p->windows.table + p->windows.count; m++)
        say(t, "0x%012lx - 0x%012lx r%c- %8lu KiB  window of 0x%012lx\n", m->at, m->at + m->bytes,
            m->rights & KD_RIGHT_WRITE ? 'w' : '-', m->bytes / 1024, m->first);
    lock_release(&p->windows.lock);
}

static void say_handle(struct text *t, int number, const struct handle_slot *s)
{
    static const char *const types[] = {"", "process", "port", "object", "view", "disk", "badge",
                                        "snapshot", "stream", "system"};
    static const char *const of_system[] = {"disks", "names", "processes", "look", "halt"};
    say(t, "%4d  %-8s ", number, types[s->type]);
    for (unsigned i = 0; i < 6; i++)
        say(t, "%c", s->rights & (i < 5 ? 1u << i : KD_RIGHT_GRANT) ? "rwcvmg"[i] : '-');
    for (unsigned i = 0; s->type == HANDLE_SYSTEM && i < ARRAY_COUNT(of_system); i++)
        if (s->rights & KD_RIGHT_DISKS << i)
            say(t, "  %s", of_system[i]);
    if (s->type == HANDLE_PROCESS)
        say(t, "  %d %s", ((struct process *)s->object)->pid, ((struct process *)s->object)->name);
    else if (s->type == HANDLE_OBJECT)
        say(t, "  %s", object_info(s->object, 0).name);
    else if (s->type == HANDLE_VIEW)
        say(t, "  %u", view_told(s->object).id);
    else if (s->type == HANDLE_BADGE)
        say(t, "  %lu, own %x", ((struct badge *)s->object)->value, s->rights / KD_RIGHT_OWN);
    struct port *p = s->type == HANDLE_BADGE ? badge_port(s->object) : s->object;
    if (s->type == HANDLE_BADGE || s->type == HANDLE_PORT)
        say(t, "  of %s[%d]", p->owner->name, p->owner->pid);
    if (s->type == HANDLE_BADGE)
        port_put(p);
    if (s->type == HANDLE_PORT && p->credits_used)
        say(t, "  %lu credits, %lu held", p->credits, p->held);
    say(t, "\n");
}

static void say_handles(struct text *t, struct process *p)
{
    say(t, "%lu of %lu handles\n", limit_used(p, KD_LIMIT_HANDLES),
        p->limits.most[KD_LIMIT_HANDLES]);
    for (int i = 0; i < PROCESS_HANDLES_MAX; i++) {
        lock_acquire(&p->handle_lock); /* not for a line: who closes them would wait long for it */
        struct handle_slot s = p->handles ? p->handles[i] : (struct handle_slot){0};
        if (s.type != HANDLE_NONE)
            handle_kinds[s.type].get(s.object);
        lock_release(&p->handle_lock);
        if (s.type != HANDLE_NONE)
            say_handle(t, i, &s);
        handle_drop(&s);
    }
}

static void say_threads(struct text *t, struct process *p)
{
    static const char *const states[] = {"ready", "running", "waits", "dead"};
    say(t, "  tid state    nice cpu     cpu us\n");
    lock_acquire(&p->lock);
    list_each(const struct thread, h, &p->threads, process_link) {
        int at[CALL_PATH_MAX];
        unsigned n = call_path(h, at);
        say(t, "%5lu %-8s %4d %3d %10lu", h->id, states[h->state % 4], h->nice, h->cpu,
            h->cpu_ns / 1000);
        for (unsigned i = 0; i < n; i++)
            say(t, i ? " > %d" : "  at %d", at[i]);
        say(t, h->locus == h ? "\n" : "  for %d\n", h->locus->pid);
    }
    lock_release(&p->lock);
}

/* ---- the call ---- */

static long say_process(struct text *t, unsigned what, int pid)
{
    struct process *p = process_find(pid);
    if (!p)
        return -ESRCH;
    if (!process_in_reach(p, KD_RIGHT_LOOK)) {
        process_put(p);
        return -EPERM;
    }
    (what == KD_LOOK_MAP ? say_map : what == KD_LOOK_HANDLES ? say_handles : say_threads)(t, p);
    process_put(p);
    return 0;
}

static long say_what(struct text *t, unsigned what, int pid)
{
    if (what <= KD_LOOK_LOCKS && !system_allows(KD_RIGHT_LOOK))
        return -EPERM;
    switch (what) {
    case KD_LOOK_LOG: t->used = log_read(t->bytes, t->size); return 0;
    case KD_LOOK_OBJECTS: say_objects(t); return 0;
    case KD_LOOK_LOCKS:
        if (pid)
            __atomic_store_n(&lock_counting, pid == 1, __ATOMIC_RELAXED);
        say_locks(t);
        return 0;
    case KD_LOOK_MAP:
    case KD_LOOK_THREADS:
    case KD_LOOK_HANDLES: return say_process(t, what, pid);
    default: return -EINVAL;
    }
}

long kd_look(const uint64_t a[6])
{
    struct text t = {.size = MIN(a[3], LOOK_BYTES_MAX - 1)};
    t.bytes = limit_alloc(process_this(), t.size + 1);
    if (!t.bytes)
        return -ENOMEM;
    long result = say_what(&t, (unsigned)a[0], (int)a[1]);
    thread_breathe();
    if (!result)
        result = copy_to_user(a[2], t.bytes, t.used) ? -EFAULT : (long)t.used;
    limit_free(process_this(), t.bytes, t.size + 1);
    return result;
}
