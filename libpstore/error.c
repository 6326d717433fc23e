/* error.c - ps_strerror: what happened, and what to do next, for every error that pstore.h can give. */
#include "pstore.h"

#include <errno.h>
#include <string.h>

static const struct {
    int error;
    const char *text;
} texts[] = {
    {0, "no error"},
    {E2BIG, "the transaction changed more than half the log can hold; it was undone: do the work in "
            "several smaller transactions, or make the store with a larger log"},
    {EACCES, "the container is open for reading only: open it with PS_WRITE"},
    {EAGAIN, "the store is busy; nothing was done: try again"},
    {EALREADY, "this thread is in a transaction already: commit or suspend it first"},
    {EBADF, "the store manager's port is not valid any more: connect again"},
    {EBUSY, "in use: somebody has the container open, the object has a name, or the call is not "
            "allowed inside a transaction; end that first"},
    {ECANCELED, "the transaction was given up by its program and undone: nothing else is wrong"},
    {EDEADLK, "two transactions waited for each other, this one was undone: run it again"},
    {EEXIST, "it exists already: leave PS_EXCLUSIVE out, or choose another name"},
    {EFAULT, "an address that is not the program's was passed: check the pointers given"},
    {EINVAL, "an argument makes no sense (a handle, an address where no object begins, a flag, a "
             "name or a size): check the call"},
    {EIO, "the disk failed. After a commit the outcome is unknown, and the store takes no more "
          "commits: restart it, then look whether the change is there"},
    {EMFILE, "too many containers, views or handles are open, in this process or in all: close some"},
    {EMSGSIZE, "a message is larger than the one who receives it has room for. From a commit: the transaction made "
               "or freed more objects than one commit can tell; use several. From any other call: an error of "
               "the library"},
    {ENAMETOOLONG, "names have at most 63 characters: choose a shorter one"},
    {ENODEV, "there is no store disk: start Katydid with one (scripts/run --store FILE)"},
    {ENOENT, "there is nothing of that name: check it. The shell's `containers` lists containers; "
             "ps_open makes one with PS_CREATE, a root is made by the first transaction that writes"},
    {ENOMEM, "memory is full: the transaction changes more pages than fit; it was undone. Use "
             "smaller transactions or give the machine more memory (MEMORY=)"},
    {ENOSPC, "the store is full, or its log: what is stored is safe. Delete containers or objects, "
             "or use smaller transactions or a larger store"},
    {ENOSYS, "this kernel lacks the call: program and kernel are of different versions; rebuild"},
    {ENOTCONN, "the store manager is not running: start Katydid with a store disk "
               "(scripts/run --store FILE) and look at its boot messages (with -c: --log FILE)"},
    {ENOLCK, "the transaction has locked too many containers: 32 segments of them at most"},
    {EOWNERDEAD, "the store manager died: the transaction was undone, or, if it was in its commit, "
                 "perhaps made durable. The next one finds the store again: look, then go on"},
    {EPERM, "not allowed here: no transaction is active in this thread, or it is not the one to be "
            "ended this way"},
    {EPROTO, "the layout does not match: the container or name holds another type, version or size "
             "(or the manager is of another version); open it with the program that made it"},
    {ERANGE, "a strict transaction stored to bytes that it had not declared with ps_touch, in a container "
             "with PS_ENCODE_RANGES; it was undone. The kernel's log names the address"},
    {EROFS, "read-only: the container was opened without PS_WRITE, or the transaction is a snapshot; "
            "a new object, also a root that is not there yet, needs a transaction that writes. Or the "
            "whole store is damaged and can only be read: the kernel's log says so"},
    {ESTALE, "the snapshot is too old, its versions are gone (or the store changed under an open "
             "container): begin a new transaction, or open again"},
    {ETIMEDOUT, "the transaction took longer than its timeout_ms and was undone: run it again, or "
                "allow more time"},
    {EUCLEAN, "a page's slots are spoilt, probably by a wild store of a program: this object cannot "
              "be freed; copy what is still good into a new container"},
    {EXDEV, "a transaction can write containers of one store only: write the other store in a "
            "transaction of its own"},
};

const char *ps_strerror(int error)
{
    error = error < 0 ? -error : error;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].error == error)
            return texts[i].text;
    return strerror(error);
}
