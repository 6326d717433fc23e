/* answer_private.h - what all servers of the library do with messages: of shared areas, and of
 * managers for their clients. */
#ifndef ANSWER_PRIVATE_H
#define ANSWER_PRIVATE_H

#include <stdint.h>

struct kd_message;

/* message_unload closes a handle that came with a message: nobody wants it, and they run out. */
void message_unload(const struct kd_message *m);
/* message_answer answers, and receives the next message if there is a port. A kernel without memory
 * for the data is asked again for a second, then the answer is -ENOMEM. 0 or -errno. */
long message_answer(uint64_t token, struct kd_message *answer, int port, struct kd_message *next);

/* open_again waits a moment, up to so many times, if an open said -EINPROGRESS: of this process's
 * objects that died some lie there still (KD_SPACE_ATTACH). 1: ask again. */
int open_again(long result, unsigned *times);

#endif
