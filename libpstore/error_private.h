/* error_private.h - which error a call returned last in this thread, for ps_strerror (error.c). */
#ifndef ERROR_PRIVATE_H
#define ERROR_PRIVATE_H

/* An error_call is a group of calls whose errors mean the same. */
enum error_call {
    ERROR_ANY, ERROR_TOLD, ERROR_OPEN, ERROR_NAMES, ERROR_OBJECT, ERROR_NO_LAYOUT, ERROR_ALLOC,
    ERROR_LARGE, ERROR_FREE, ERROR_TXN, ERROR_RETRY, ERROR_UPGRADE, ERROR_OTHER, ERROR_AREA,
    ERROR_ASK, ERROR_LATCH, ERROR_INDEX, ERROR_SPREAD, ERROR_PARALLEL, ERROR_MANAGER, ERROR_SEGMENT,
    ERROR_DISKS, ERROR_PROCESSES, ERROR_LOOK, ERROR_WHOLE, ERROR_SPLIT,
    ERROR_SITE,                         /* opening SITE:NAME: its own texts, then ERROR_OPEN's */
};
extern __thread struct error_last { enum error_call call; int error; } error_last;
static inline int error_told(enum error_call call, int result) /* returns it: 0 or -errno */
{
    error_last = (struct error_last){call, result < 0 ? -result : 0};
    return result;
}
void *error_told_by(enum error_call call, void *result);      /* NULL: errno */
static inline void error_forget(void) { error_last.error = 0; }
/* lack_text tells which right the store missed in this thread's last -EACCES. NULL: unsaid. */
const char *lack_text(void);

/* error_told_if notes an error only: for calls too short to forget the error before. */
static inline int error_told_if(enum error_call call, int result)
{
    return result < 0 ? error_told(call, result) : result;
}

#endif
