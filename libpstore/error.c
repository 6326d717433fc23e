/*
 * error.c - ps_strerror: what happened, and what to do next, for every error of the public headers.
 *
 * A program returns errors of its own from its transactions, and some of them are also the
 * library's. So each call says which error it returned (error_told); of one of those that programs
 * like to use, ps_strerror explains the library's reasons only if the library was the last to
 * return it.
 */
#include "error_private.h"

#include "pstore.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

__thread struct error_last error_last;

void *error_told_by(enum error_call call, void *result)
{
    error_told(call, result ? 0 : -errno);
    return result;
}

#define ENDED \
    "the process that made the area has ended: open it again when somebody has made it anew"
#define WAITS "who serves an area neither asks it nor closes it: it would wait for itself"
#define NO_MANAGER \
    "the program that is the container's manager "
#define MANY_OPEN \
    "this process has too many containers open: 128 segments of them at most, a GiB or more " \
    "each; close some"
#define LIMIT_OF_NAMES \
    "a directory above has a limit of names: take some away, or ask who manages it: " \
    "`cap DIRECTORY` tells limits, `cap limit` sets them"
#define FULL \
    "the store is full, or its log: what is stored is safe. Delete containers or objects, or " \
    "use smaller transactions or a larger store"

/* `shared` are errors that programs use, too, by the call that gave them. */
static const struct {
    int error;
    enum error_call call;               /* ERROR_TOLD: any; ERROR_ANY, the last of an error: none,
                                         * it is the program's own */
    const char *text;
} shared[] = {
    {EACCES, ERROR_SITE,
     "its home has not exported that to this site, or to be read alone, or nothing at all yet: "
     "`store export NAME SITE write` there gives it"},
    {EINVAL, ERROR_SITE,
     "SITE:NAME: a site's name has 1 to 31 letters, digits, - _ or ., and a container's no space "
     "at its beginning, no colon or control character; neither is empty: check the call"},
    {ENOENT, ERROR_SITE,
     "nothing of that name is exported to this site: check it, or `store export NAME SITE write` "
     "at its home"},
    {EOWNERDEAD, ERROR_SITE,
     "the session with that site, or its store, ended while this was opened: open it again; "
     "`sites` shows whether it is there"},
    {EPROTOTYPE, ERROR_SITE,
     "a type that this program declares is not described by the container, or the other way round, "
     "or cannot be converted: ps_site_refused says which (`the container`: it has no description)"},
    {EBADMSG, ERROR_SITE, "what this program has declared is no description of types"},
    {EBUSY, ERROR_SITE,
     "another program of this site has it open, and declared other types, or none"},
    {ENOTCONN, ERROR_SITE,
     "there is no session with that site's store: `sites` shows which sites have joined. Is the "
     "name right (of two copies of a store it is the first one's), does it run, with a store, and "
     "is this machine a site (scripts/run --site)?"},
    {EACCES, ERROR_SPLIT,
     "what was given may only be read, a way of `run --via NAME:r`, say: open it without PS_WRITE"},
    {EEXIST, ERROR_SPLIT, "a program serves this container already: use that one, or end it first"},
    {EMFILE, ERROR_SPLIT, "the container's server has as many clients, or ways to it, as it takes"},
    {ENOENT, ERROR_SPLIT,
     "nobody serves this container, or not yet: start its server first (ps_split_serve)"},
    {E2BIG, ERROR_MANAGER,
     "a manager's path and arguments have at most 480 bytes, with a NUL behind each: use fewer"},
    {EACCES, ERROR_MANAGER, NO_MANAGER "cannot be run: it is no program"},
    {ENOENT, ERROR_MANAGER, "there is no such program, or no container of that name"},
    {ENOTEMPTY, ERROR_NAMES, "the directory has entries: delete them, or take them away, first"},
    {ENOTEMPTY, ERROR_MANAGER,
     "the container has pages in the store, which nobody could reach any more: take another one"},
    {EINVAL, ERROR_MANAGER,
     "a manager is a path, such as /bin/squares, and arguments without control characters; its "
     "container is no index, and has a name without slash and colon: check the call"},
    {ETIMEDOUT, ERROR_OPEN,
     NO_MANAGER "did not begin in time, and was ended: `dmesg` has what it printed"},
    {E2BIG, ERROR_INDEX,
     "the transaction has changed 1,024 keys of indexes already: use several transactions"},
    {EACCES, ERROR_OPEN,
     "this program has no right to that, to write it or to make it: who starts it can give it, by "
     "`run --only NAME:read,write PROGRAM` or `with DIR run PROGRAM`; `cap NAME` says which "
     "rights there are"},
    {EACCES, ERROR_NAMES,
     "this program has no right to do that to it: `cap NAME` in the shell says which rights there "
     "are, and `cap give NAME NEW RIGHTS` makes a name with more, for who has them"},
    {EACCES, ERROR_TOLD, "the container is open for reading only: open it with PS_WRITE"},
    {EACCES, ERROR_ANY, "not allowed: is it open for changes?"},
    {EAGAIN, ERROR_OPEN,
     "16 containers with managers of their own are open already, or the system goes down: close "
     "some"},
    {EAGAIN, ERROR_ANY, "busy, or changed meanwhile; nothing was done: try again"},
    {EBUSY, ERROR_OPEN,
     "inside a transaction only a container that exists can be opened; or it is being deleted "
     "at this moment, or given another encoder"},
    {EBUSY, ERROR_NAMES,
     "somebody has the container open, or this is inside a transaction: end that first"},
    {EBUSY, ERROR_MANAGER,
     "somebody has the container open, or this is inside a transaction: end that first"},
    {EBUSY, ERROR_FREE, "the object has a name, or is a root: it stays as long as its container"},
    {EBUSY, ERROR_SPREAD, "a segment is opened, spread and cleared outside of transactions"},
    {EBUSY, ERROR_OTHER,
     "not allowed inside a transaction, or somebody else has the container open or locked: end"
     " that first"},
    {EBUSY, ERROR_ANY, "in use"},
    {ECHILD, ERROR_MANAGER, NO_MANAGER "refuses these arguments, and has said why: nothing is set"},
    {EDEADLK, ERROR_AREA, WAITS},
    {EDEADLK, ERROR_ASK, WAITS},
    {EDEADLK, ERROR_LATCH, "this thread has the latch already; or it serves the area, and a task "
                           "never waits there: use PS_LATER"},
    {EDEADLK, ERROR_RETRY,
     "ps_retry while this thread has another transaction suspended, which somebody might wait for: "
     "end that first"},
    {EDQUOT, ERROR_RETRY,
     "too many wait in ps_retry: 32 threads of a process at most, 128 in all; wait with fewer"},
    {EDQUOT, ERROR_TXN,
     "a directory above one of the containers has a limit, of pages, of names or of commits in a "
     "second, that the transaction would pass; it was undone. Free something, wait, or ask who "
     "manages it: `cap DIRECTORY` tells limits, `cap limit` sets them. Or it is one of several "
     "homes, and one of them has too many of this site's in doubt, for another one is away"},
    {EDQUOT, ERROR_NAMES, LIMIT_OF_NAMES},
    {EDQUOT, ERROR_OPEN, MANY_OPEN "; or, with PS_CREATE, " LIMIT_OF_NAMES},
    {EEXIST, ERROR_OPEN,
     "a container of that name exists already: leave PS_EXCLUSIVE out, or choose another name"},
    {EEXIST, ERROR_NAMES,
     "a container or directory of that name exists already: choose another name"},
    {EEXIST, ERROR_AREA, "an area, or something else, of that name is there: choose another name"},
    {EEXIST, ERROR_INDEX, "the key is in the index already: ps_index_put replaces its value"},
    {EEXIST, ERROR_ANY, "it exists already"},
    {EINVAL, ERROR_OPEN,
     "a container's name has no space at its beginning, no slash, colon or control character, no "
     "mark of the store's log, and is not empty; a layout has bytes; PS_EXCLUSIVE needs PS_CREATE: "
     "check the call"},
    {EINVAL, ERROR_NAMES,
     "that is no path of names: a name is not empty, `.` or `..`, and has no colon or control "
     "character and no mark of the store's log; slashes stand only between names: check the call"},
    {EINVAL, ERROR_OBJECT, "the container is not open, or the name is empty: check the call"},
    {EINVAL, ERROR_ALLOC,
     "an object has at least one byte, and its container is open: check the call"},
    {EINVAL, ERROR_FREE,
     "no object begins at this address: was it freed already, or is this the middle of one?"},
    {EINVAL, ERROR_TXN, "an option of the transaction makes no sense: check the call"},
    {EINVAL, ERROR_RETRY,
     "ps_retry has nothing to wait for: no page was read and no name missed, or it is a snapshot "
     "or a dirty read"},
    {EINVAL, ERROR_UPGRADE,
     "ps_upgrade wants two layouts that have bytes, the older version first and the newer below "
     "2^31, and a step: check the call"},
    {EINVAL, ERROR_AREA, "an area has a name, and 1 byte to 16 MiB: check the call"},
    {EINVAL, ERROR_LATCH,
     "a latch lies in its area's memory, at a multiple of 8 bytes: check the call"},
    {EINVAL, ERROR_INDEX,
     "the index is not open, or the container is none; or an option makes no sense: check the "
     "call. ps_index_check runs outside of transactions, or in a snapshot"},
    {EINVAL, ERROR_SPREAD,
     "a segment has a name of at most 63 bytes and 1 to 8 parts, all in containers or none; what "
     "is spread was built in ps_building's memory: check the call"},
    {EINVAL, ERROR_PARALLEL, "an administrator has at most 32 workers: check the call"},
    {EINVAL, ERROR_ANY, "an argument makes no sense"},
    {EIO, ERROR_TOLD,
     "the disk failed. After a commit the outcome is unknown, and the store takes no more "
     "commits: restart it, then look whether the change is there"},
    {EIO, ERROR_ANY, "input or output failed"},
    {ENOENT, ERROR_OPEN,
     "there is no container of that name: check it. The shell's `containers` lists them; "
     "ps_open makes one with PS_CREATE"},
    {ENOENT, ERROR_NAMES,
     "there is no container of that name: check it. The shell's `ls -l` lists them"},
    {ENOENT, ERROR_NO_LAYOUT,
     "there is no root, and none can be made: the container was opened without a layout; give "
     "ps_open one, such as PS_LAYOUT(struct root, 1), or use ps_named"},
    {EMFILE, ERROR_AREA, "256 processes have the area open, or too many handles are: close some"},
    {EMFILE, ERROR_INDEX, "a transaction uses at most 16 indexes: use several"},
    {EMFILE, ERROR_PARALLEL, "16 queries are open at once: close one"},
    {EMSGSIZE, ERROR_ASK,
     "a message has at most 4,096 bytes, and its answer no more than the message: make room"},
    {EMSGSIZE, ERROR_PARALLEL,
     "a buffer of the query would hold no record, or is above 1 MiB: give it other `bytes`"},
    {EMSGSIZE, ERROR_TXN,
     "the transaction made or freed more objects than one commit can tell; use several"},
    {ENODATA, ERROR_SPREAD, "nothing was built, or nothing was spread yet: call ps_spread first"},
    {ENOENT, ERROR_AREA,
     "nobody has made an area, or an administrator, of that name: start its program first"},
    {ENOENT, ERROR_INDEX, "the key is not in the index"},
    {ENOENT, ERROR_SPREAD, "no leaf of the segment lies at that address"},
    {ENOENT, ERROR_SEGMENT,
     "the container has no segment of this number, or its manager serves none: ask for a smaller "
     "one"},
    {EINVAL, ERROR_SEGMENT, "the container is not open: check the call"},
    {ENOENT, ERROR_OBJECT,
     "the root or named object is not there yet: the first transaction that may write makes it"},
    {ENOENT, ERROR_ANY, "there is nothing of that name or key"},
    {ENOSPC, ERROR_LARGE,
     "an object has at most 1 GiB: make it of several, or of pages of your own"},
    {ENOSPC, ERROR_OPEN,
     "the store is full, or has addresses for no more containers (8,192 of 1 GiB): delete some"},
    {ENOSPC, ERROR_ALLOC, FULL},
    {ENOSPC, ERROR_TXN, FULL},
    {ENOSPC, ERROR_ANY, "there is no room"},
    {ENOSYS, ERROR_ASK, "the area has no task: give ps_area_make one"},
    {ENOTSUP, ERROR_OPEN,
     "a container that locks items, has a manager of its own or is logged by PS_ENCODE_RANGES "
     "cannot be opened at another site: open it at its home"},
    {ENOTCONN, ERROR_AREA, ENDED},
    {ENOTCONN, ERROR_ASK, ENDED},
    {ENOTCONN, ERROR_LATCH, ENDED},
    {ENOTCONN, ERROR_PARALLEL, ENDED},
    {EOVERFLOW, ERROR_LATCH, "a semaphore counts to 2^31 - 1: fewer can be given"},
    {EOVERFLOW, ERROR_INDEX, "a string in an index has at most 253 bytes"},
    {EOWNERDEAD, ERROR_LATCH,
     "the latch is taken. A process ended while it had it, so what it guards may be half done: "
     "repair that, then call ps_latch_repaired"},
    {EPERM, ERROR_AREA,
     "the right to publish names is missing: who starts this program gives it by `allow names "
     "PROGRAM`"},
    {EPERM, ERROR_DISKS,
     "the right to open disks is missing: who starts this program gives it by `allow disks "
     "PROGRAM`"},
    {EPERM, ERROR_PROCESSES,
     "it is init, which nobody ends, or this program did not start it, and the right to touch such "
     "ones is missing: who starts this one gives it by `allow processes PROGRAM`"},
    {EPERM, ERROR_LOOK,
     "the right to look at others and the kernel is missing: who starts this program gives it by "
     "`allow look PROGRAM`"},
    {EPERM, ERROR_WHOLE,
     "this is about the store as a whole, which only programs may touch that are started without "
     "`with` and `run --only`"},
    {EPERM, ERROR_OPEN,
     "this program was given nothing of that store: who starts it gives it by `run --only NAME "
     "PROGRAM` or `with DIR PROGRAM`"},
    {EPERM, ERROR_NAMES,
     "it is the container's first entry, which stays as long as the container: delete it "
     "(`rm-container`), or give it another name"},
    {EISDIR, ERROR_OPEN, "that is a directory: open one of its containers (`ls -l` lists them)"},
    {EPERM, ERROR_ASK,
     "the task refused; or this process has not opened the area, as a child of fork has to"},
    {EPERM, ERROR_LATCH,
     "this thread does not have the latch; or its process has not opened the area: a child of fork "
     "opens it itself"},
    {EPERM, ERROR_INDEX, "indexes are read and changed in transactions: none is active here"},
    {EPERM, ERROR_ANY,
     "not allowed here: no transaction is active in this thread, or it is not the one to be "
     "ended this way"},
    {EPROTO, ERROR_INDEX, "the container of that name is no index, or one of the other kind"},
    {ETIMEDOUT, ERROR_ASK, "the task did not answer within timeout_ms"},
    {ETIMEDOUT, ERROR_LATCH, "nothing was given within timeout_ms, and nothing is taken"},
    {EUCLEAN, ERROR_INDEX,
     "the index is damaged: delete it and make it anew from the objects that it leads to"},
    {EUCLEAN, ERROR_SPREAD,
     "the containers are not the parts of one segment, in this order: give each its number's"},
    {EUCLEAN, ERROR_TOLD,
     "a page's slots are spoilt, probably by a wild store of a program: this object cannot "
     "be freed; copy what is still good into a new container"},
    {EUCLEAN, ERROR_ANY,
     "what is stored is damaged, probably by a wild store of a program: copy what is still good "
     "into a new container"},
    {EXDEV, ERROR_OPEN,
     "the handle is not of the store that this program is connected to: whoever gave it made it "
     "himself, or it is of another store, or of one whose manager has died: ask for another one"},
    {EXDEV, ERROR_SPREAD,
     "this change needs another leaf, and a structure that was spread gets none: build it anew and "
     "spread that"},
};

/* `texts` are all other errors. */
static const struct {
    int error;
    const char *text;
} texts[] = {
    { 0, "no error" },
    { E2BIG,
      "the transaction changed more than half the log can hold, or more than 256 pages of "
      "indexes; it was undone: do the work in several smaller transactions, or make the store "
      "with a larger log" },
    { EALREADY, "this thread is in a transaction already: commit or suspend it first" },
    { EBADF, "the store manager's port is not valid any more: connect again" },
    { EBADFD,
      "this thread has left its transaction by a kernel call (KD_VIEW_ENTER), so it was undone: "
      "leave it by ps_suspend, or be back in the same view when it ends" },
    { EBADMSG, NO_MANAGER "offered memory that is not the container's, and was ended" },
    { ECHILD, NO_MANAGER "ended before it served it: `dmesg` has what it printed" },
    { ELOOP, NO_MANAGER "would wait for itself: it, or one that it stands on, has this container" },
    { ENOEXEC, NO_MANAGER "cannot be started: is it in this system, and a program?" },
    { ECONNREFUSED, "one of the two sites refuses the other: `sites -v` says why" },
    { ECANCELED, "the transaction was undone: its program gave it up, or the program that serves "
                 "one of its containers ended: run it again" },
    { EDEADLK, "two transactions waited for each other, this one was undone: run it again" },
    { EDQUOT, MANY_OPEN },
    { EFAULT, "an address that is not the program's was passed: check the pointers given" },
    { EINPROGRESS, NO_MANAGER "is starting, or what this program has there of a manager that ended "
                              "is going still: ask again, and wait (ps_open does)" },
    { EINTR, "another thread waits for the next question now: ps_decide_next is for one thread" },
    { EMFILE,
      "too many containers, views or handles are open, in this process or in all: close some" },
    { EMSGSIZE,
      "what is to be stored or sent is larger than there is room for: a heap's item, a message" },
    { EFBIG, "a structure holds no more, or not at so high a number: its header has the limits" },
    { ENAMETOOLONG, "names have at most 63 characters: choose a shorter one" },
    { ENOTDIR, "a part of the path is a container, and no directory: check it (`ls -l`)" },
    { EIDRM, "the right to it was taken back: ask who gave it" },
    { EMLINK, "too many links lie on the way: take another path. What is reached by a link of a "
              "directory above it is not given further: its owner can, who needs no such link" },
    { ENXIO, "no site of that name is connected with this one: `sites` lists those that are" },
    { ENODEV, "there is no store disk: start Katydid with one (scripts/run --store FILE)" },
    { ENOMEM, "memory is full: the transaction changes more pages than fit, or the store more "
              "objects than its "
              "manager can keep account of (7 MiB for each GiB); it was undone. Use smaller "
              "transactions or give "
              "the machine more memory (MEMORY=)" },
    { ENOSYS, "this kernel lacks the call: program and kernel are of different versions; rebuild" },
    { ENOTCONN, "the store manager is not running, and has not come back within some seconds if it "
                "died: start "
                "Katydid with a store disk (scripts/run --store FILE), and look at `dmesg` (with "
                "-c: --log FILE). A spare serves nobody: open SITE:NAME (`store status`). Of "
                "another site's containers: their home is away, `sites` says which sites are "
                "there" },
    { ENOLCK, "the transaction has locked too many containers: 32 segments of them at most" },
    { EOWNERDEAD,
      "the store manager died, or the session with another site's home ended: the transaction was "
      "undone, or, if it was in its commit, perhaps made durable. The next one finds the store "
      "again: look, then go on" },
    { ENOTRECOVERABLE,
      "the outcome of the commit is unknown: the site whose container it is for was lost, and "
      "has not come back, or has committed too much since: look before you do it again" },
    { EPROTO,
      "the layout does not match: the container or name holds another type, version or size; "
      "open it with the program that made it. If that is older than this one, this one has to "
      "call ps_upgrade before ps_open, from the type and version that the shell's `containers` "
      "tells; an upgrade that was cut off is finished by it" },
    { EPROTOTYPE, "the structure was set up with another key, record, order, flags or node size: "
                  "open it with the "
                  "types of the program that made it" },
    { ENOTUNIQ,
      "two types have the same number, which is made of 31 bits of their texts: rename one of "
      "them. If objects of it exist already, they keep the number" },
    { ENOBUFS, "1,024 threads wait in this area already: try again when fewer do" },
    { ENOTSUP, "an older Katydid made the object, so its name stays with it; or the container has "
               "a manager of its own, and the store allocates and names nothing there" },
    { EOVERFLOW,
      "a key or a record is too long for the structure: in a tree of strings a key has at most a "
      "16th of a node, a record of variable size NAME_record_max bytes" },
    { ENOTEMPTY, "a structure is loaded only when it is empty: insert instead" },
    { ENODATA, "the structure was never set up: call its NAME_set_up once, in the transaction that "
               "finds its head still empty" },
    { EPROTONOSUPPORT,
      "program and store manager are of different versions: build the program again with the "
      "libpstore that belongs to this Katydid; what is stored is not concerned" },
    { ERANGE,
      "a strict transaction stored to bytes that it had not declared with ps_touch, in a container "
      "with PS_ENCODE_RANGES; it was undone. The kernel's log names the address" },
    { EROFS,
      "read-only: the container was opened without PS_WRITE, or the transaction is a snapshot; "
      "a new object, also a root that is not there yet, needs a transaction that writes. Or "
      "the "
      "whole store is damaged and can only be read: the kernel's log says so" },
    { ESTALE, "the snapshot is too old, its versions are gone (or the store changed under an open "
              "container): begin a new transaction, or open again" },
    { ESRCH, "nobody waits for this answer any more: forget the request" },
    { ETIMEDOUT, "the transaction took longer than its timeout_ms and was undone: run it again, or "
                 "allow more time" },
    { EXDEV, "a transaction can write containers of several stores, but not everything in them at "
             "once: no containers of items, none of managers over different stores, and at "
             "most four stores; do the rest in a transaction of its own" },
};

static const char *shared_text(int error)
{
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        if (shared[i].error == error &&
            (shared[i].call == ERROR_ANY ||
             (error == error_last.error &&
              (shared[i].call == error_last.call || shared[i].call == ERROR_TOLD ||
               (shared[i].call == ERROR_OPEN && error_last.call == ERROR_SITE)))))
            return shared[i].text;
    return NULL;
}

/* lack_is_told tells whether the call asked the store about a path, or about all of it. */
static int lack_is_told(void)
{
    enum error_call by = error_last.call;
    return error_last.error == EACCES && (by == ERROR_OPEN || by == ERROR_NAMES ||
                                          by == ERROR_MANAGER || by == ERROR_OTHER);
}

const char *ps_strerror(int error)
{
    error = error < 0 ? -error : error;
    const char *text = error == EACCES && lack_is_told() ? lack_text() : NULL;
    if (!text)
        text = shared_text(error);
    if (text)
        return text;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].error == error)
            return texts[i].text;
    return strerror(error);
}
