/*
 * export.c - `store export`: what another site may open of this store (user/sites/remote.md).
 *
 * A site sees the directory exports/SITE and nothing else; exporting makes a link there. `cap`
 * tells and takes back what was exported, as any link.
 */
#include "sh.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pstore.h"

static int directory_have(const char *path)
{
    int error = ps_directory_create(path);
    return error == -EEXIST ? 0 : error;
}

static int export_link(const char *path, const char *site, unsigned may)
{
    char entry[256];
    const char *slash = strrchr(path, '/');
    int error = directory_have("exports");
    snprintf(entry, sizeof entry, "exports/%s", site);
    if (!error) error = directory_have(entry);
    int n = snprintf(entry, sizeof entry, "exports/%s/%s", site, slash ? slash + 1 : path);
    if (!error && n >= (int)sizeof entry) error = -ENAMETOOLONG;
    int handle = error ? error : ps_handle(path, may | PS_MAY_GRANT);
    if (handle < 0) return handle;
    error = ps_link(handle, entry, may | PS_MAY_GRANT); /* the agent shows it to servers */
    ps_drop(handle);
    return error;
}

/* store export NAME SITE read|write */
int store_export(const struct io *io, char **words)
{
    bool three = words[0] && words[1] && words[2] && !words[3];
    bool writes = three && strcmp(words[2], "write") == 0;
    if (!three || (!writes && strcmp(words[2], "read") != 0) || strchr(words[1], '/')) {
        dprintf(io->error, "store export NAME SITE read|write: the site SITE may open the "
                           "container, or what is in the directory, as our site's name:NAME\n");
        return 2;
    }
    int error = ps_connect(NULL); /* PS_STORE may have changed */
    if (!error)
        error = export_link(words[0], words[1], writes ? PS_MAY_READ | PS_MAY_WRITE : PS_MAY_READ);
    const char *slash = strrchr(words[0], '/');
    if (error == -EEXIST)
        dprintf(io->error, "store export: %s: %s has something of that name already: `cap drop "
                           "exports/%s/%s` takes it back\n", words[0], words[1], words[1],
                slash ? slash + 1 : words[0]);
    else if (error)
        dprintf(io->error, "store export: %s to %s: %s\n", words[0], words[1], ps_strerror(error));
    return error != 0;
}
