/*
 * virtio_serial.c - virtio 1.x consoles with many ports (1af4:1043): each port is a byte stream.
 *
 * Owns      each stream's queues and buffers, who has it open, whether somebody listens outside.
 * Not here  order and repetition (the host's socket), what the bytes mean (user/sites).
 *
 * The device's words about its ports (there is one, its name, the other end is there) come by a
 * queue of their own, and ours go by another. A stream has as many buffers as the device may fill
 * before anybody reads: then it stops, and so does whoever writes at the other end.
 *
 * Invariants
 *   BS1  A buffer to read is offered to the device, or full and in the stream's list, or in the
 *        hands of the one call that reads (`reading`). One to write is free, offered, or in the
 *        hands of the one call that writes.
 *   BS2  What the device writes is input: ports that do not exist, names without an end, lengths
 *        that do not fit are ignored or cut.
 *   BS3  A stream has references exactly while `opened`; the notices go to the port of that opener.
 *   BS4  When the other end goes, the device gives back all that it can see, then says so; but what
 *        it had written in part it forgets (QEMU). So a buffer that is out when it says so, for
 *        the second time since it was offered (`out_old`: for the first), is free: at the first,
 *        it may have been offered behind the giving back.
 *   BS5  A word for which the device finds no buffer it drops (QEMU), as when many others connect
 *        while the kernel starts. So who opens a stream that is not known, or not connected, has it
 *        say all again.
 *
 * Lock: the device's (RANK_BLOCK), also taken by the interrupt. Ports are told without it.
 */
#include "stream/stream.h"

#include "message/message.h"
#include "process/vm.h"
#include "thread/thread.h"
#include "virtio/virtio.h"

#include "arch.h"

enum { STREAMS_MAX = 16, BUFFERS = 8, ALL_BUFFERS = (1 << BUFFERS) - 1, WORDS = 64 };
#define FEATURE_MULTIPORT (1ull << 1)

struct serial_registers { uint16_t columns, rows; uint32_t ports_max; };
struct control { uint32_t id; uint16_t event, value; };     /* a name follows NAME */
enum control_event { DEVICE_READY, PORT_ADD, PORT_REMOVE, PORT_READY, CONSOLE_PORT, RESIZE,
                     PORT_OPEN, PORT_NAME };
enum { QUEUE_CONTROL_IN = 2, QUEUE_CONTROL_OUT = 3 };

struct stream {
    uint32_t references;                /* atomic; BS3 */
    char name[KD_NAME_MAX];             /* "": the device has not said it */
    bool exists, opened, told_open;     /* told_open: what the device knows of `opened` */
    bool connected, broken;             /* the other end; it went, and nobody has heard it */
    bool reading, tell;                 /* BS1; the port is to be told */
    struct port *port;                  /* a reference */
    uint64_t bits;                      /* of KD_MSG_NOTIFY */
    struct virtq in, out;
    char *in_memory, *out_memory;       /* BUFFERS pages */
    uint16_t writing;                   /* BS1: no bit or one, as in out_free */
    uint16_t out_free, out_old;         /* a bit for each buffer; BS4 */
    uint8_t full[BUFFERS];              /* in the order in which they came */
    uint32_t full_bytes[BUFFERS];
    unsigned full_first, full_count;
    uint32_t full_read;                 /* of the first */
};

/* The device: one is used. */
static struct {
    struct virtio_device virtio;
    struct lock lock;
    struct virtq control_in, control_out;
    char *words;                        /* a page: what the device says, WORDS pieces of it */
    struct control *said;               /* what we say */
    uint64_t said_free;                 /* a bit for each */
    unsigned count;                     /* of streams; numbers are the device's ports */
    struct stream streams[STREAMS_MAX];
} serial = {.lock = LOCK_INIT(RANK_BLOCK, "streams")};

enum { WORD_BYTES = PAGE_BYTES / WORDS };

/* ---- our words to the device ---- */

/* say tells the device one thing. False: it has not read enough of what it was told. Lock held. */
static bool say(unsigned port, enum control_event event, uint16_t value)
{
    if (!serial.said_free)
        return false;
    unsigned i = (unsigned)__builtin_ctzll(serial.said_free);
    serial.said_free &= serial.said_free - 1;
    serial.said[i] = (struct control){port, (uint16_t)event, value};
    virtq_offer(&serial.control_out, (uint16_t)i);
    virtq_notify(&serial.control_out);
    return true;
}

/* say_opened tells the device who is open and who is not, as far as it does not know. Lock held. */
static void say_opened(void)
{
    for (unsigned i = 0; i < serial.count; i++) {
        struct stream *s = &serial.streams[i];
        if (s->exists && s->opened != s->told_open && say(i, PORT_OPEN, s->opened))
            s->told_open = s->opened;
    }
}

/* ---- what the device says ---- */

static void offer_in(struct stream *s, unsigned i)
{
    s->in.descriptors[i].bytes = PAGE_BYTES;
    virtq_offer(&s->in, (uint16_t)i);
}

static void stream_collect(struct stream *s)
{
    uint32_t head, bytes;
    for (unsigned n = virtq_used(&s->in); n > 0 && n <= BUFFERS; n--) {
        virtq_take(&s->in, &head, &bytes);
        if (head >= BUFFERS || s->full_count == BUFFERS) /* BS2 */
            continue;
        if (!bytes) {
            offer_in(s, head);
            continue;
        }
        unsigned at = (s->full_first + s->full_count++) % BUFFERS;
        s->full[at] = (uint8_t)head;
        s->full_bytes[at] = MIN(bytes, (uint32_t)PAGE_BYTES);
        s->tell = true;
    }
    for (unsigned n = virtq_used(&s->out); n > 0 && n <= BUFFERS; n--) {
        virtq_take(&s->out, &head, &bytes);
        if (head < BUFFERS) {
            s->out_free |= (uint16_t)(1u << head);
            s->out_old &= (uint16_t)~(1u << head);
        }
        s->tell = true;
    }
}

/* stream_broke frees what the device has lost, at its word that the other end went (BS4). */
static void stream_broke(struct stream *s)
{
    stream_collect(s); /* it gave that back before it said so */
    s->out_free |= s->out_old;
    s->out_old = ALL_BUFFERS & (uint16_t)~(s->out_free | s->writing);
    s->broken |= s->connected;
    s->connected = false;
}

static void control_taken(const char *at, uint32_t bytes)
{
    struct control c;
    memcpy(&c, at, sizeof(c));
    if (bytes < sizeof(c) || c.id >= serial.count) /* BS2 */
        return;
    struct stream *s = &serial.streams[c.id];
    switch (c.event) {
    case PORT_ADD:
        s->exists = say(c.id, PORT_READY, 1);
        break;
    case PORT_REMOVE:
        s->exists = false;
        stream_broke(s);
        break;
    case PORT_NAME:
        bytes = MIN(bytes - (uint32_t)sizeof(c), (uint32_t)sizeof(s->name) - 1);
        memcpy(s->name, at + sizeof(c), bytes);
        s->name[bytes] = 0;
        break;
    case PORT_OPEN:
        if (!c.value)
            stream_broke(s);
        s->connected = c.value;
        break;
    default:
        return;
    }
    s->tell = true;
}

static void control_collect(void)
{
    uint32_t head, bytes;
    for (unsigned n = virtq_used(&serial.control_out); n > 0 && n <= WORDS; n--) {
        virtq_take(&serial.control_out, &head, &bytes);
        if (head < WORDS)
            serial.said_free |= 1ull << head;
    }
    for (unsigned n = virtq_used(&serial.control_in); n > 0 && n <= WORDS; n--) {
        virtq_take(&serial.control_in, &head, &bytes);
        if (head >= WORDS)
            continue;
        control_taken(serial.words + head * WORD_BYTES, MIN(bytes, (uint32_t)WORD_BYTES));
        virtq_offer(&serial.control_in, (uint16_t)head);
    }
    virtq_notify(&serial.control_in);
    say_opened();
}

/* tell_port tells who has a stream open that there is something to do. No lock. */
static void tell_port(struct stream *s)
{
    lock_acquire(&serial.lock);
    struct port *p = s->tell ? s->port : NULL;
    s->tell = false;
    if (p)
        port_get(p);
    lock_release(&serial.lock);
    if (!p)
        return;
    (void)port_notify(p, s->bits); /* a dead port hears nothing */
    port_put(p);
}

static void interrupt(void *arg)
{
    (void)arg;
    lock_acquire(&serial.lock);
    control_collect();
    for (unsigned i = 0; i < serial.count; i++)
        stream_collect(&serial.streams[i]);
    lock_release(&serial.lock);
    for (unsigned i = 0; i < serial.count; i++)
        tell_port(&serial.streams[i]);
}

/* ---- opening and closing ---- */

static struct stream *stream_named(const char *name)
{
    for (unsigned i = 0; i < serial.count; i++)
        if (serial.streams[i].exists && strcmp(serial.streams[i].name, name) == 0)
            return &serial.streams[i];
    return NULL;
}

void stream_get(void *stream)
{
    __atomic_fetch_add(&((struct stream *)stream)->references, 1, __ATOMIC_RELAXED);
}

/* read_all gives the first full buffer back to the device. Lock held. */
static void read_all(struct stream *s)
{
    offer_in(s, s->full[s->full_first]);
    s->full_first = (s->full_first + 1) % BUFFERS;
    s->full_count--;
    s->full_read = 0;
}

void stream_put(void *stream)
{
    struct stream *s = stream;
    if (__atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    lock_acquire(&serial.lock);
    struct port *p = s->port;
    s->port = NULL;
    while (s->full_count > 0) /* the next one begins with what comes then */
        read_all(s);
    virtq_notify(&s->in);
    s->opened = false; /* BS3 */
    say_opened();
    lock_release(&serial.lock);
    port_put(p);
}

/* stream_claim gives a stream that nobody has open to the one who asks. 0, -ENODEV, -EBUSY. */
static long stream_claim(const char *name, struct port *p, uint64_t bits, struct stream **found)
{
    lock_acquire(&serial.lock);
    struct stream *s = stream_named(name);
    long result = !s ? -ENODEV : s->opened ? -EBUSY : 0;
    if (!s || !s->connected)
        (void)say(0, DEVICE_READY, 1); /* BS5 */
    if (!result) {
        s->references = 1;
        s->opened = true; /* BS3 */
        s->broken = false;
        s->tell = true;
        s->port = p;
        s->bits = bits;
        say_opened();
        *found = s;
    }
    lock_release(&serial.lock);
    return result;
}

long kd_stream_open(const uint64_t a[6])
{
    char name[KD_NAME_MAX];
    struct stream *s = NULL;
    if (!system_allows(KD_RIGHT_DISKS))
        return -EPERM;
    long result = copy_string_from_user(name, a[0], sizeof name);
    if (result <= 0)
        return result && result != -ENAMETOOLONG ? result : -ENODEV;
    struct port *p = handle_find((int)a[1], HANDLE_PORT, KD_RIGHT_CALL, port_get);
    if (handle_failed(p))
        return (long)p;
    result = stream_claim(name, p, a[2], &s);
    if (result) {
        port_put(p);
        return result;
    }
    tell_port(s); /* so that it looks for what was there before */
    return handle_new(process_this(), HANDLE_STREAM, s,
                      KD_RIGHT_READ | KD_RIGHT_WRITE | KD_RIGHT_MANAGE);
}

/* ---- reading and writing ---- */

/* state_error: 0, or why nothing can be read or written at the moment. Lock held. */
static long state_error(const struct stream *s)
{
    return s->broken ? -ECONNRESET : s->connected ? 0 : -ENOTCONN;
}

/* read_begin takes the first full buffer into the call's hands (BS1). 0 or -errno. */
static long read_begin(struct stream *s, const char **at, uint64_t *bytes)
{
    lock_acquire(&serial.lock);
    long error = s->reading ? -EBUSY : s->full_count == 0 ? state_error(s) : 0;
    if (!error && s->full_count == 0)
        error = -EAGAIN;
    if (error == -ECONNRESET)
        s->broken = false; /* it is heard once, behind all that came before */
    if (!error) {
        s->reading = true;
        *at = s->in_memory + s->full[s->full_first] * (size_t)PAGE_BYTES + s->full_read;
        *bytes = MIN(*bytes, s->full_bytes[s->full_first] - s->full_read);
    }
    lock_release(&serial.lock);
    return error;
}

HANDLE_CALL(kd_stream_read, struct stream *s, HANDLE_STREAM, KD_RIGHT_READ, 0)
{
    const char *at;
    uint64_t bytes = a[2];
    long error = read_begin(s, &at, &bytes);
    if (error)
        return error;
    error = copy_to_user(a[1], at, bytes);
    lock_acquire(&serial.lock);
    s->reading = false;
    if (!error) {
        s->full_read += (uint32_t)bytes;
        if (s->full_read == s->full_bytes[s->full_first]) {
            read_all(s);
            virtq_notify(&s->in);
        }
    }
    lock_release(&serial.lock);
    return error ? error : (long)bytes;
}

/* write_begin takes a free buffer into the call's hands (BS1): its number, or -errno. */
static long write_begin(struct stream *s)
{
    lock_acquire(&serial.lock);
    long result = s->writing ? -EBUSY : state_error(s);
    if (!result && !s->out_free)
        result = -EAGAIN;
    if (!result) {
        result = __builtin_ctz(s->out_free);
        s->writing = (uint16_t)(1u << result);
        s->out_free &= (uint16_t)~s->writing;
    }
    lock_release(&serial.lock);
    return result;
}

HANDLE_CALL(kd_stream_write, struct stream *s, HANDLE_STREAM, KD_RIGHT_WRITE, 0)
{
    uint64_t bytes = MIN(a[2], (uint64_t)PAGE_BYTES);
    if (!bytes)
        return 0;
    long i = write_begin(s);
    if (i < 0)
        return i;
    long error = copy_from_user(s->out_memory + i * (long)PAGE_BYTES, a[1], bytes);
    lock_acquire(&serial.lock);
    if (!error) {
        s->out.descriptors[i].bytes = (uint32_t)bytes;
        virtq_offer(&s->out, (uint16_t)i);
        virtq_notify(&s->out);
        if (virtq_used(&serial.control_in))
            control_collect(); /* what it said before is not about this one: BS4 */
    } else {
        s->out_free |= s->writing;
    }
    s->writing = 0;
    lock_release(&serial.lock);
    return error ? error : (long)bytes;
}

/* ---- set-up ---- */

/* buffers_make gives each entry of the queue one piece of memory. */
static char *buffers_make(struct virtq *q, uint32_t bytes, uint16_t flags)
{
    char *memory = virtio_memory((size_t)q->size * bytes);
    for (unsigned i = 0; memory && i < q->size; i++)
        q->descriptors[i] = (struct virtio_descriptor){virtio_address(memory + (size_t)i * bytes),
                                                       bytes, flags, 0};
    return memory;
}

static bool stream_make(struct stream *s)
{
    unsigned i = (unsigned)(s - serial.streams);
    uint16_t number = (uint16_t)(i ? 2 * i + 2 : 0);
    if (!virtq_make(&serial.virtio, &s->in, number, BUFFERS, BUFFERS) ||
        !virtq_make(&serial.virtio, &s->out, (uint16_t)(number + 1), BUFFERS, BUFFERS))
        return false;
    s->in_memory = buffers_make(&s->in, PAGE_BYTES, VIRTIO_DEVICE_WRITES);
    s->out_memory = buffers_make(&s->out, PAGE_BYTES, 0);
    s->out_free = ALL_BUFFERS;
    return s->in_memory && s->out_memory;
}

static bool queues_make(void)
{
    if (!virtq_make(&serial.virtio, &serial.control_in, QUEUE_CONTROL_IN, WORDS / 2, WORDS) ||
        !virtq_make(&serial.virtio, &serial.control_out, QUEUE_CONTROL_OUT, WORDS / 2, WORDS))
        return false;
    serial.words = buffers_make(&serial.control_in, WORD_BYTES, VIRTIO_DEVICE_WRITES);
    serial.said = (void *)buffers_make(&serial.control_out, sizeof(struct control), 0);
    serial.said_free = ~0ull >> (64 - serial.control_out.size);
    for (unsigned i = 0; i < serial.count; i++)
        if (!stream_make(&serial.streams[i]))
            return false;
    return serial.words && serial.said;
}

static const char *set_up(const struct pci_device *p)
{
    if (serial.virtio.common)
        return "there is another one";
    const char *failure = virtio_begin(&serial.virtio, p, sizeof(struct serial_registers),
                                       VIRTIO_VERSION_1 | FEATURE_MULTIPORT, 0, interrupt, NULL);
    if (failure)
        return failure;
    serial.count = ((volatile struct serial_registers *)serial.virtio.registers)->ports_max;
    serial.count = MIN(serial.count, STREAMS_MAX);
    if (!queues_make())
        return virtio_failed(&serial.virtio, "no queue");
    virtio_ready(&serial.virtio);
    for (unsigned i = 0; i < serial.control_in.size; i++)
        virtq_offer(&serial.control_in, (uint16_t)i);
    virtq_notify(&serial.control_in);
    for (struct stream *s = serial.streams; s < serial.streams + serial.count; s++) {
        for (unsigned k = 0; k < BUFFERS; k++)
            offer_in(s, k);
        virtq_notify(&s->in);
    }
    (void)say(0, DEVICE_READY, 1); /* the first: there is room for it */
    printk("streams: virtio, %u at most", serial.count);
    return NULL;
}

void virtio_serial_init(void) { virtio_for(VIRTIO_SERIAL, set_up); }
