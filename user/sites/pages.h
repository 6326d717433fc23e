/*
 * pages.h - which rights a site has to which pages: the table that a home keeps for a client, and
 * the client for the home (remote.md). Nothing here calls the kernel or sends anything; who calls
 * does what the answer says, and guards the table.
 *
 * RG1  A page has one entry, and each grant a serial of its own in the session; a GONE or a COMMIT
 *      that names another serial than the page's last one says nothing about it.
 * RG2  While a page is on its way to the client, or in a commit of it, no GONE is believed; and
 *      none ends a wait for what the kernel has given for it meanwhile.
 * RG3  Who is older at the client is not younger at the home, over all its GETs.
 */
#ifndef USER_SITES_PAGES_H
#define USER_SITES_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct site_page {
    uint64_t page;                      /* its address; 0: no entry */
    uint64_t serial;                    /* of the last grant; 0: none yet */
    uint64_t asked;                     /* number of the GET that is open, or 0 */
    uint8_t right;                      /* enum site_right */
    uint8_t called;                     /* 0, or 1 + the right that may stay */
    uint8_t wanted;                     /* home: the same, of those who wait; client: of the GET */
    uint8_t held;                       /* home: on its way, or in so many commits (RG2); client:
                                         * enum client_get */
    bool used;                          /* client: since the last grant; of containers of updates */
};
/* Of a GET: somebody waits for it, as far as is known; nobody was seen to, at the last look; it is
 * taken back. */
enum client_get { GET_WANTED, GET_UNWANTED, GET_CANCELLED };
struct site_pages { struct site_page *at; size_t room, count, most, hand; };

/* The page's entry; NULL: it has none. It stays where it is until the next pages_make. */
struct site_page *pages_find(const struct site_pages *t, uint64_t page);
/* The same, made if there is none; NULL: `most` are there, or there is no memory. */
struct site_page *pages_make(struct site_pages *t, uint64_t page);
/* The entry goes if there is nothing in it. */
void pages_settle(struct site_pages *t, uint64_t page);
/* All entries of pages from `base` to below `end` go. */
void pages_forget(struct site_pages *t, uint64_t base, uint64_t end);
void pages_free(struct site_pages *t);

/* For how long a view's transaction has been known to wait, its repetitions, which keep their
 * ticket, with it. */
struct site_ages { struct { uint64_t ticket, since; } of[128]; };
uint64_t age_of(struct site_ages *ages, uint64_t view, uint64_t ticket, uint64_t now);

/* Tickets of a client's transactions and the home's tickets for them, both rising: who is known to
 * be older than another one there is no younger here. The youngest of a circle is its victim, so
 * the oldest one of all ends, by the home's order. Those that come after many others are forgotten:
 * who comes again then is as old as the oldest that is known. */
enum { SITE_TICKETS = 128 };
struct site_tickets { struct { uint64_t theirs, ours; } of[SITE_TICKETS]; unsigned first, count; };
/* The home's ticket for this one; 0: it is younger than all that are known, and needs a new one,
 * which tickets_note is told then. */
uint64_t tickets_ours(const struct site_tickets *t, uint64_t theirs);
void tickets_note(struct site_tickets *t, uint64_t theirs, uint64_t ours);

/* ---- at the home ---- */
/* Gives up what the kernel has for the client above `to`. False: a worker has it at the moment. */
typedef bool site_release(uint64_t page, int to);
/* A GET came. False: its client has one open for this page already, or asks for less than it
 * has: no client does that. NULL entry: no room. */
bool home_get(struct site_page *p, uint64_t number, int right);
/* The page has been taken for it: from now on no GONE counts. */
void home_taken(struct site_page *p);
/* ... and is the client's, the serial being this. 0, or 1 + the right that may stay, if a CALL is
 * to follow the GRANT. */
int home_granted(struct site_page *p, int right, uint64_t serial);
/* May a page be given to the client that it has not asked for, with the one before it? NULL entry:
 * it has none. Then it has it to read, as if it had asked. */
bool home_may_give(const struct site_page *p);
void home_gave(struct site_page *p, uint64_t serial);
/* ... and is not, after all: what the kernel may have given for it above its right is released. */
void home_denied(struct site_page *p, site_release *release);
/* Somebody waits for the client's right, to whom only `to` may stay. True: send a CALL. What the
 * kernel has for it above its right, and no worker at the moment, is released. */
bool home_wanted(struct site_page *p, int to, site_release *release);
/* GONE came. True: the client has `to` from now on, and what is above it is released; but if
 * `release` says false, it is being taken for the client again: then a CALL follows the GRANT. */
bool home_gone(struct site_page *p, uint64_t serial, int to, site_release *release);
/* May a COMMIT change the page? Then it is held until home_committed. */
bool home_commits(struct site_page *p, uint64_t serial);
int home_committed(struct site_page *p); /* 0, or 1 + the right that may stay: a CALL is due */

/* ---- at the client ---- */
/* A fault wants the page. `uses`: its transaction has used it, so a page that is called back is no
 * obstacle. The right to ask for in a GET; SITE_NO: no GET now. */
int client_wants(const struct site_page *p, int right, bool uses);
void client_asked(struct site_page *p, uint64_t number, int right);
/* GRANT came. False: to no open GET. */
bool client_granted(struct site_page *p, uint64_t number, uint64_t serial, int right);
/* A page came that nobody has asked for. False: it is not taken, as a GET of it is open, whose
 * answer counts. */
bool client_given(struct site_page *p, uint64_t serial);
bool client_denied(struct site_page *p, uint64_t number);
/* Its GET is looked at: does somebody wait for it? True: nobody, twice in a row: CANCEL is to be
 * sent. The GET stays open until it is answered. */
bool client_cancels(struct site_page *p, bool waits);
/* CALL came. True: recall what is above p->called - 1; false: that grant is over, and GONE is to
 * say so. */
bool client_called(struct site_page *p, uint64_t serial, int to);
/* Nobody uses more than p->called - 1 of it any more: GONE is to be sent. The right that stays. */
int client_gone(struct site_page *p);

#endif
