/*
 * wire.h - store_protocol.h with other names: disk/store.h also has a store_op and a store_stats.
 *
 * What clients send is called wire_ here, what the disk library takes store_.
 */
#ifndef USER_STORE_WIRE_H
#define USER_STORE_WIRE_H

#include "store.h"

#undef STORE_NAME_BYTES
#define store_open           wire_open
#define store_opened         wire_opened
#define store_entry          wire_entry
#define store_stats          wire_stats
#define store_op             wire_op
#define store_op_kind        wire_op_kind
#define STORE_OP_NAME_SET    WIRE_NAME_SET
#define STORE_OP_NAME_UNSET  WIRE_NAME_UNSET
#define STORE_OP_PAGE_FREE   WIRE_PAGE_FREE
#define STORE_OP_ROOM        WIRE_ROOM
#define STORE_OP_PAGE_CLAIM  WIRE_PAGE_CLAIM
#include "store_protocol.h"
#undef store_open
#undef store_opened
#undef store_entry
#undef store_stats
#undef store_op
#undef store_op_kind
#undef STORE_OP_NAME_SET
#undef STORE_OP_NAME_UNSET
#undef STORE_OP_PAGE_FREE
#undef STORE_OP_ROOM
#undef STORE_OP_PAGE_CLAIM

#endif
