/*
 * process.h - processes: an address space in slot 0, threads, files, handles, attached objects.
 */
#ifndef KERNEL_PROCESS_H
#define KERNEL_PROCESS_H

#include "process/limit.h"
#include "thread/thread.h"

#define PROCESS_MAX 256
#define PROCESS_FILES_MAX 64
#define PROCESS_THREADS_MAX 256
#define PROCESS_HANDLES_MAX 256

struct file;
struct node;
struct handle_slot;
struct attachment;

struct process_files {
    struct lock lock;                /* RANK_PROCESS; a file has its own, RANK_FILE */
    struct file *of[PROCESS_FILES_MAX];
    uint64_t close_on_exec;          /* bit by descriptor */
    struct node *cwd;
    unsigned umask;                  /* mode bits that what it makes does not get; atomic */
};

struct process {
    struct thread_home home;         /* first: thread.h. Table: vm.c */
    int pid, parent;
    int family;                      /* pid of the first: those that fork made have its number */
    char name[KD_NAME_MAX];
    struct lock lock;                /* RANK_PROCESS */
    struct list link;                /* all processes; process table lock */
    struct list threads;
    unsigned thread_count;
    bool dying, ended;
    uint64_t dying_ns; /* since when */
    int status, signal;              /* exit status, 128 + signal if that ended it; or 0 */
    struct list waiters;             /* its threads that wait for children; process table lock */
    uint32_t references;             /* atomic: handles, threads, table */
    uint64_t children_ns;            /* of the children that it waited for; process table lock */
    uint32_t flags;
    struct limits limits;

    /* vm.c */
    struct lock space_lock;          /* RANK_SPACE */
    struct list regions;
    unsigned region_count;
    uint64_t frames;                 /* pages of slot 0 */
    struct { vaddr_t start, end; } brk;

    struct process_files files;      /* descriptor.c */
    struct {                         /* signal.c; lock */
        struct signal_actions *actions; /* NULL: all defaults */
        uint64_t pending;
    } signals;

    /* handle.c */
    struct lock handle_lock;         /* RANK_HANDLES */
    struct handle_slot *handles;     /* PROCESS_HANDLES_MAX, allocated on first use */

    /* view.c, object.c */
    struct lock attach_lock;         /* RANK_ATTACH */
    struct attachment **attachments; /* sorted by base address */
    unsigned attachment_count, attachment_capacity;
    uint32_t attach_generation;      /* atomic: rises with each change */
    struct process_windows {         /* mapping.c: by address, no two overlap (WI6) */
        struct lock lock;            /* RANK_MAPPING */
        unsigned count;
        struct mapping {
            vaddr_t at, first;       /* of the window; of its first page in its container */
            uint64_t bytes, rights;  /* KD_RIGHT_*; 0: it ends (WI5) */
        } table[32];
    } windows;
    struct view *plain;              /* maps objects that are not transactional; view.c */
    uint64_t dirty;  /* atomic: pages of its objects that it is to clean; dirty_count() */
    bool locks_items;                /* its views may have bits in tables; item_lock.c */
    bool takes_reserve; /* init, and managers with KD_OBJECT_SPILLS that init started or that may
                         * open disks: their memory may come from the reserve, and they
                         * do not end for want of it */
    struct kd_view_stats stats;      /* without disk_bytes; process_stats() */
};

_Static_assert(offsetof(struct process, home) == 0, "thread_home() casts");
/* process_this is NULL in kernel threads. */
static inline struct process *process_this(void) { return thread_this()->process; }
struct process *process_find(int pid);         /* with a reference, or NULL; process_put */
/* process_in_reach: may the calling process act on p? It may if p is of its family or descends from
 * that, if it has a handle of p with KD_RIGHT_MANAGE, or the system's with `right`. Nobody has
 * KD_RIGHT_PROCESSES over init. */
bool process_in_reach(const struct process *p, uint32_t right);
void process_get(void *process);
void process_put(void *process);
/* process_kill ends the process, and the log says why; the calling thread leaves on its way out. */
void process_kill(struct process *p, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* process_exit is process_kill without a message: exit_group. */
void process_exit(struct process *p, int status);
void process_end_by(struct process *p, int signal);
/* process_thread_new makes a further thread of the calling process, which starts in user mode with
 * these registers. Its tid, or -ENOMEM, -EAGAIN, -ESRCH (the process is ending). */
must_check long process_thread_new(const struct trap_frame *registers, uint64_t fs_base,
                                   vaddr_t clear_child_tid, vaddr_t parent_tid, vaddr_t child_tid);
void process_interrupt(void);                  /* Ctrl-C: ends the foreground processes */
bool process_foreground(void);                 /* is there one? */
unsigned process_count(void);
void process_stats(const struct process *p, struct kd_view_stats *out);
/* process_thread_part takes the calling thread, which was killed, out of its process. It may go on
 * in the kernel, keeps its reference to the process, and never goes back to user mode. */
void process_thread_part(void);
/* process_thread_leave is the killed thread's last way out of user mode; calls thread_exit(). */
_Noreturn void process_thread_leave(void);
void process_check(void);                      /* vm_check() of all; panics if one is wrong */
void process_start_first(void);                /* /bin/init */

/* vm.c: user memory outside the store region. */
/* vm_fault makes a page resident. 0, -EFAULT, -EACCES, -ENOMEM, -EIO (the file has no such bytes).
 */
int vm_fault(struct process *p, vaddr_t at, unsigned flags);

/* process_seam: functions of rooms above that a process's life calls; kernel/seams.c names them. */
struct signal_info;
struct process_seam {
    /* thread_gone: called in order, once per thread, in that thread, before it exits: abort its
     * transaction, ... NULL ends the list. */
    void (*const *thread_gone)(struct thread *t);
    /* gone: called in order when nothing of the process runs any more, also for one that never ran:
     * views, handles, objects and the rest end. NULL ends the list. */
    void (*const *gone)(struct process *p);
    /* load maps the program into the new process's empty space and builds its first stack. 0,
     * -ENOEXEC (the log says why), -EACCES, -E2BIG, -ENOMEM, -EIO. */
    int (*load)(struct process *p, struct node *image, const char *path, const char *const *argv,
                const char *const *envp, vaddr_t *entry, vaddr_t *stack);
    /* fault: the calling thread did what is impossible at `at`. True: its program handles that. */
    bool (*fault)(int signal, int code, vaddr_t at);
    void (*interrupt)(struct process *p);      /* Ctrl-C */
    bool (*wants_no_child)(struct process *parent); /* nobody will wait for its children */
    void (*child_ended)(struct process *parent, const struct process *child); /* no lock held */
    void (*killed)(struct process *p);         /* the log gets the rest of a report */
    uint64_t (*versions)(struct process *p); /* KD_LIMIT_VERSIONS: how many are used */
    void (*left)(void); /* the calling thread has left its process: the rest may end late */
};
extern const struct process_seam process_seam;

/* syscall.c: calls that got -ENOSYS because nobody knows their number. */
extern uint64_t syscall_unknown_count;

#endif
