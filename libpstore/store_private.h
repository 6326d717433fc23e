/*
 * store_private.h - the connections to stores (store.c), for container.c, which opens and refreshes
 * them. container.c's table_lock is held, unless it says otherwise.
 */
#ifndef PSTORE_STORE_PRIVATE_H
#define PSTORE_STORE_PRIVATE_H

#include "pstore_private.h"
#include "split.h"

/* store_next returns the store behind s in the table, s NULL: the first. NULL: there is none. */
struct ps_store *store_next(struct ps_store *s);
/* store_connect makes the store of that name the one of ps_open; NULL: that of PS_STORE, or
 * "store". 0, -EMFILE, -ENOTCONN or another -errno. */
int store_connect(const char *store);
/* store_opens makes s the one that ps_open looks in. */
void store_opens(struct ps_store *s);
/* site_path returns of "SITE:PATH" what is behind the colon; else the path (site.c). */
const char *site_path(const char *path);
/* site_open_request makes STORE_OPEN's data: the request, its path, and in another site's store
 * what this program has declared of its data (site.h). How many bytes. */
enum { SITE_OPEN_BYTES = sizeof(struct open_request) + 4000 };
size_t site_open_request(const struct ps_store *s, const struct open_request *r,
                         uint8_t to[SITE_OPEN_BYTES]);
/* site_refused keeps the words of the answer to an open that was refused with EPROTOTYPE. */
void site_refused(const void *name, size_t bytes);
/* site_connect gives a path's store, which is begun, if it is not there; ps_open goes on looking
 * where it did. 0 or -errno. */
int site_connect(const char *path, int (*connect)(const char *store), struct ps_store **out);
/* site_or_store is connect(store), but of "SITE:..." the site's: then ps_open looks there. */
int site_or_store(const char *store, int (*connect)(const char *store));
/* site_again begins another site's store, if it is not there any more. 0: it is no such one;
 * -ECONNREFUSED */
int site_again(const char *store);
/* store_hello asks its manager whether it is there and speaks our protocol: 0 or -errno. */
int store_hello(struct ps_store *s);
/* store_drop gives up the connection. */
void store_drop(struct ps_store *s);
/* store_find gets a port to the manager; -ENOTCONN if none is published under the name. */
int store_find(struct ps_store *s);

#endif
