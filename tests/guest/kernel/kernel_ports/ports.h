/* ports.h - what the parts of kernel_ports share. */
#ifndef PORTS_H
#define PORTS_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"
#include "tap.h"

enum { OP_ECHO = 1, OP_DIE, OP_HOLD, OP_HANDLE, OP_PASS, OP_EXIT };

enum { THREADS = 4, CLIENTS = 3, ROUNDS = 300, SURE_MS = 60000 };

enum { CHILDREN = 200, HANDLES = 250, LOOK_BYTES = 32768 };

/* ---- server.c: the server, a process of its own ---- */

extern char big[KD_DATA_MAX + 1], answer[KD_DATA_MAX + 1];

long port_new(void);
long call(long port, struct kd_message *m);
long receive(long port, struct kd_message *m, long ms);
long reply(uint64_t token, struct kd_message *m);
void rest(long ms);
int serve(const char *name);

/* The pid of a copy of this program. */
int start(const char *mode, const char *name);

long find(const char *name);
int wait_for(int pid);

/* ---- clients.c: clients of the server ---- */

/* Calls with data of many lengths; 0: every answer was right. */
int client_rounds(const char *name, unsigned seed);

void test_calls(long port);
void test_data(long port);
void test_handles(long port);

/* ---- both.c: ports whose two ends are here ---- */

void test_tokens(void);
void test_small_buffer(void);

/* A process whose threads call us: killed while its call is queued, delivered, being answered. */
void test_killed_callers(void);

void test_dead_server(void);

/* The last handle with the right to receive is closed, in a process that goes on: whoever waits at
 * the port is told, wherever its call is. */
void test_closed_port(void);

void test_closed_under_receiver(void);

/* An object keeps its port, but receives nothing. */
void test_closed_under_object(void);

/* Aim: of an object that is made while its port is closed, nobody waits for pages: it ends with the
 * port. Method: it is large, so its making takes as long as the port's end, which begins a bit
 * later each time. */
void test_closed_while_made(void);

void test_notices(void);

/* A caller that waits so long and no longer, wherever its call is then. */
void test_timeouts(void);

void test_names(void);

#endif
