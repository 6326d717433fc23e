/* gone.h - what a port's manager is to hear of transactions that have ended (gone.c). */
#ifndef KERNEL_GONE_H
#define KERNEL_GONE_H

#include "message/port.h"

/* port_hears makes a port one whose manager can hear of ends. No memory: false. */
must_check bool port_hears(struct port *p);
/* port_gone tells it that the transaction of a view has ended. Of one view the last end counts. */
void port_gone(struct port *p, unsigned view, int pid, bool killed, int reason);
/* for ports (item_uses): VIEW_GONE is delivered; port lock held */
void port_gone_taken(struct item *i, struct notice *n);

#endif
