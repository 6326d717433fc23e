/*
 * kd.h - the kernel as the store manager calls it, by name and with types.
 *
 * All calls go through kd_system() and kd_system5(), which kd.c maps to the system call
 * instruction. A test on the host brings its own, and with them a kernel of its own.
 */
#ifndef USER_STORE_KD_H
#define USER_STORE_KD_H

#include <stdbool.h>
#include <string.h>

#include "katydid/abi.h"
#include "katydid/trace.h"

#define PAGE_BYTES KD_PAGE_BYTES

long kd_system(long number, long a, long b, long c, long d);
long kd_system5(long number, long a, long b, long c, long d, long e);

#define KD1(n, a)          kd_system((n), (long)(a), 0, 0, 0)
#define KD2(n, a, b)       kd_system((n), (long)(a), (long)(b), 0, 0)
#define KD3(n, a, b, c)    kd_system((n), (long)(a), (long)(b), (long)(c), 0)
#define KD4(n, a, b, c, d) kd_system((n), (long)(a), (long)(b), (long)(c), (long)(d))
#define KD5(n, a, b, c, d, e) kd_system5((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

/* kd_mark puts a word into the kernel's trace (katydid/trace.h). */
static inline void kd_mark(const char text[16])
{
    uint64_t words[2];
    memcpy(words, text, sizeof(words));
    (void)KD3(KD_TRACE, KD_TRACE_MARK_IT, words[0], words[1]);
}
static inline long kd_receive(int port, struct kd_message *m, long timeout_ms)
{
    return KD3(KD_PORT_RECEIVE, port, m, timeout_ms);
}
static inline long kd_reply(uint64_t token, struct kd_message *m)
{
    return KD2(KD_PORT_REPLY, token, m);
}
static inline long kd_reply_receive(uint64_t token, struct kd_message *reply, int port,
                                    struct kd_message *next)
{
    return KD4(KD_PORT_REPLY_RECEIVE, token, reply, port, next);
}
static inline long kd_notify(int port, uint64_t bits)
{
    return KD2(KD_PORT_NOTIFY, port, bits);
}
static inline long kd_object_create(struct kd_object_create *o)
{
    return KD1(KD_OBJECT_CREATE, o);
}
static inline long kd_object_destroy(int object, bool if_unused)
{
    return KD2(KD_OBJECT_DESTROY, object, if_unused);
}
static inline long kd_space_attach(uint64_t process, int object, uint32_t rights)
{
    return KD3(KD_SPACE_ATTACH, process, object, rights);
}
static inline long kd_space_detach(uint64_t process, int object)
{
    return KD2(KD_SPACE_DETACH, process, object);
}
static inline long kd_space_rights(uint64_t process, int object)
{
    return KD2(KD_SPACE_RIGHTS, process, object);
}
static inline long kd_object_supply(struct kd_supply *s)
{
    return KD1(KD_OBJECT_SUPPLY, s);
}
static inline long kd_object_fail(int object, uint64_t page, uint64_t count, int error)
{
    return KD4(KD_OBJECT_FAIL, object, page, count, error);
}
/* kd_object_refuse answers one question with an error; -ESRCH: nobody waits for it any more. */
static inline long kd_object_refuse(int object, uint64_t page, int error, uint64_t number)
{
    return KD5(KD_OBJECT_FAIL, object, page, 1, error, number);
}
/* kd_object_grant: number 0: the rights are for all. */
static inline long kd_object_grant(int object, uint64_t page, uint64_t count, unsigned rights,
                                   uint64_t number)
{
    return KD5(KD_OBJECT_GRANT, object, page, count, rights, number);
}
static inline long kd_object_recall(int object, uint64_t page, uint64_t count, unsigned to,
                                    uint64_t users[2])
{
    return KD5(KD_OBJECT_RECALL, object, page, count, to, users);
}
static inline long kd_object_info(int object, uint64_t page, uint64_t count, uint8_t *bits)
{
    return KD4(KD_OBJECT_INFO, object, page, count, bits);
}
static inline long kd_object_advise(int object, uint64_t page, uint64_t count,
                                    enum kd_advice advice)
{
    return KD4(KD_OBJECT_ADVISE, object, page, count, advice);
}
static inline long kd_object_pin(int object, uint64_t page, uint64_t count, int on)
{
    return KD4(KD_OBJECT_PIN, object, page, count, on);
}
static inline long kd_object_encoder(int object, uint32_t encoder)
{
    return KD2(KD_OBJECT_ENCODER, object, encoder);
}
static inline long kd_object_cleaned(int object, uint64_t page, uint64_t csn)
{
    return KD3(KD_OBJECT_CLEANED, object, page, csn);
}
static inline long kd_object_read(int object, uint64_t page, void *bytes, uint64_t *csn)
{
    return KD4(KD_OBJECT_READ, object, page, bytes, csn);
}
static inline long kd_object_audit(int object, uint64_t page, uint64_t count, struct kd_damage *d)
{
    return KD4(KD_OBJECT_AUDIT, object, page, count, d);
}
static inline long kd_object_mend(int object, uint64_t page, const void *bytes, uint64_t csn)
{
    return KD4(KD_OBJECT_MEND, object, page, bytes, csn);
}
static inline long kd_clean_list(struct kd_page_name *names, unsigned count)
{
    return KD2(KD_CLEAN_LIST, names, count);
}
static inline long kd_txn_diff(struct kd_diff *d)
{
    return KD1(KD_TXN_DIFF, d);
}
static inline long kd_txn_publish(struct kd_publish *p, unsigned count, uint64_t settled)
{
    return KD3(KD_TXN_PUBLISH, p, count, settled);
}
static inline long kd_txn_parts(struct kd_parts *p)
{
    return KD1(KD_TXN_PARTS, p);
}
static inline long kd_txn_voted(uint64_t view, uint64_t token)
{
    return KD2(KD_TXN_VOTED, view, token);
}
static inline long kd_txn_spilled(uint64_t view, uint64_t token, uint64_t count, int done)
{
    return KD4(KD_TXN_SPILLED, view, token, count, done);
}
static inline long kd_txn_unspill(uint64_t view, uint64_t token, const void *bytes)
{
    return KD3(KD_TXN_UNSPILL, view, token, bytes);
}
static inline long kd_view_wait(uint64_t view, const uint64_t mask[2])
{
    return KD2(KD_VIEW_WAIT, view, mask);
}
static inline long kd_txn_refuse(uint64_t view, uint64_t token, int error)
{
    return KD3(KD_TXN_REFUSE, view, token, error);
}
static inline long kd_view_list(struct kd_view_info *out, unsigned count)
{
    return KD2(KD_VIEW_LIST, out, count);
}
static inline long kd_view_abort(uint64_t view, int error)
{
    return KD2(KD_VIEW_ABORT, view, error);
}
static inline long kd_credit_grant(int port, uint64_t count)
{
    return KD2(KD_CREDIT_GRANT, port, count);
}
static inline long kd_read_pages(int disk, struct kd_page_io *io, unsigned count)
{
    return KD3(KD_BLOCK_READ_PAGES, disk, io, count);
}
static inline long kd_write_pages(int disk, struct kd_page_io *io, unsigned count)
{
    return KD3(KD_BLOCK_WRITE_PAGES, disk, io, count);
}

#endif
