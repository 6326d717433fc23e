/* trace.h - what the parts of the program share: the events of a run, in the order of their
 * times. */
#ifndef USER_TRACE_H
#define USER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "katydid/call.h"
#include "katydid/trace.h"

struct trace {
    unsigned cpus;
    struct kd_trace_event *events;
    size_t count, room;
    uint64_t lost;
    const char *command;                       /* the program that was traced */
};

/* collect.c */
enum { EVENTS_MAX = 1 << 20 };                 /* kept in memory; the others are lost */
/* Runs the program and collects what happens until its end. Its exit status, or -1 with a
 * message. */
int collect(struct trace *t, char **argv);

/* names.c */
void names_learn(const struct trace *t);       /* before any of the following */
const char *process_name(uint32_t pid);        /* "bank" */
/* The container that lies there; *offset in it. NULL: none. */
const char *object_name(uint64_t address, uint64_t *offset);
/* The path of the entry that has this grant of the store; NULL: none that this program finds. */
const char *grant_path(uint64_t serial);
/* What a trace file says before its events. */
void names_write(void *file);
extern const char *const event_names[KD_TRACE_KINDS];

/* sites.c: how the clocks of other sites stand to ours, for a trace file; of a machine that is no
 * site nothing. */
void sites_write(void *file);

/* objects.c: what lies at an address of a container, as far as it can be read. */
#define NO_OBJECT (~0ull)
struct spot { uint32_t type; uint64_t offset; };        /* NO_OBJECT: in no object */
struct spot spot_at(uint64_t address);
void types_want(uint32_t number);              /* before types_learn */
void types_learn(const char *program);         /* reads the texts in its file */
const char *type_text(uint32_t number);        /* "struct node"; valid until the next call */

/* hot.c: the pages that were waited for most. 0, or 1 with a message. */
int hot_print(const struct trace *t);

/* rights.c: who made, passed on, got and used which badge and grant. 0, or 1 with a message:
 * nobody. */
int rights_print(const struct trace *t);
/* An event GRANT in words; until the next call. */
const char *grant_story(const struct kd_trace_event *e);

/* story.c: one transaction; ticket 0: the one with a conflict that took longest. 0, or 1: there is
 * none. */
int story_print(const struct trace *t, uint64_t ticket);

#endif
