/* answer_private.h - what all servers of the library do with messages: of shared areas, and of
 * managers for their clients. */
#ifndef ANSWER_PRIVATE_H
#define ANSWER_PRIVATE_H

#include <stdint.h>

struct kd_message;

/* Nobody here wants a handle: one that came with a message is closed, else they would run out. */
void message_unload(const struct kd_message *m);
/* Answers, and receives the next message if there is a port. The kernel may have no memory for the
 * data just now: it is asked again for a second, then the answer is -ENOMEM. 0 or -errno. */
long message_answer(uint64_t token, struct kd_message *answer, int port, struct kd_message *next);

#endif
