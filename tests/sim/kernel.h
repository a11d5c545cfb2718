/*
 * The simulated kernel: descriptors and what they name, seen from both ends. The program under test
 * reaches it by system calls (system.c) and by its rings (ring*.c); simulated peers and disks by
 * the calls below.
 */
#ifndef SLUICE_TESTS_SIM_KERNEL_H
#define SLUICE_TESTS_SIM_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "loop/list.h"
#include "sim/world.h"

enum { KERNEL_FIRST_FD = 1000000, KERNEL_FDS = 4096, KERNEL_BACKLOG = 256 };

enum file_kind { FILE_STREAM, FILE_LISTENER, FILE_EVENT, FILE_RING, FILE_DISK, FILE_FOLDER };

/* What a descriptor names; it stays for as long as a descriptor, an operation or a peer has it. */
struct file {
    enum file_kind kind;
    uint32_t references;
    uint32_t id;
    bool closed;   /* no descriptor names it any more */
    int port;      /* of a listener */
    loop_list ops; /* of rings, that are under way */

    /* FILE_STREAM, seen from the program */
    uint8_t *received; /* and not taken yet: from first on */
    size_t received_first, received_length, received_room;
    uint64_t came; /* so often: bytes, the end, or an error */
    bool peer_finished;
    int error; /* told once to who asks next; negative */
    bool dead; /* there is no peer any more */
    uint32_t low_water;
    bool tells_rest; /* TCP_INQ */
    size_t window;   /* most bytes that wait to be received */
    size_t stop;     /* no receive takes bytes from both sides of this many; 0: any may */
    uint8_t *sent;   /* and not taken by the peer yet: from first on */
    size_t sent_first, sent_length, sent_room;
    size_t buffer;        /* most of them */
    bool finished;        /* nothing more will be sent */
    bool was_reset;       /* with bytes that it had not taken; seen by the peer */
    uint64_t sent_in_all; /* bytes */
    uint16_t peer_port;
    struct file *pair; /* of a socket pair, whose other end this is */
    world_fn *watch;   /* called once when the peer sees something new */
    void *watch_user;
    uint32_t watch_most; /* microseconds until then */

    /* FILE_LISTENER */
    struct file *arrivals[KERNEL_BACKLOG];
    size_t arrival_count;

    uint64_t count; /* FILE_EVENT */

    struct disk_file *disk; /* FILE_DISK */
};

struct file *kernel_file_new(enum file_kind kind);
struct file *kernel_file_ref(struct file *file);
void kernel_file_unref(struct file *file);

/* A descriptor for it, the lowest that is free; takes the reference over. -EMFILE */
int kernel_open(struct file *file);

/* NULL for what is no descriptor of the simulated kernel's. */
struct file *kernel_file(int fd);
bool kernel_is_fd(int fd);
int kernel_close(int fd);

/* How often the program has slept; and it does once more. */
uint64_t kernel_sleeps(void);
void kernel_sleep(void);

/* Descriptors that are open. */
uint32_t kernel_open_count(void);

void kernel_begin(void);
void kernel_end(void);

/* A peer: connects to a port. NULL where nobody listens. The reference is the peer's. */
struct file *peer_connect(uint16_t port);

/* Sends as much as the window takes; finishes; goes with a reset; takes what was sent to it.
 * Bytes. */
size_t peer_send(struct file *file, const void *bytes, size_t n);
void peer_finish(struct file *file);
void peer_reset(struct file *file);
size_t peer_receive(struct file *file, void *bytes, size_t n);

/* Nothing more will come: the program has closed it or finished, and all has been taken. */
bool peer_is_ended(const struct file *file);

/*
 * Calls once, up to @most_us after there is something new for the peer: bytes, room for its own, or
 * the end. Peers that have nothing to do sleep: a world in which many ask again and again is slow
 * to play.
 */
void peer_watch(struct file *file, uint32_t most_us, world_fn *call, void *user);
void peer_wake(struct file *file);

/* Takes bytes from the front, to pieces of memory. */
void file_take_received(struct file *file, void *memory, size_t n);
void file_put_received(struct file *file, const void *bytes, size_t n);
size_t file_put_sent(struct file *file, const struct iovec *pieces, size_t count, size_t most);

/* The rings: ring.c. */

/* What this kernel can do. Bundles that have gaps are those of Linux 6.13.11 to 6.14.8: see
 * ring_receive.c. */
enum kernel_age {
    KERNEL_BUNDLES,
    KERNEL_MULTISHOT,
    KERNEL_SINGLE,
    KERNEL_GAPS,
    KERNEL_LEAST_WAIT, /* bundles, and a wait with a least time */
    KERNEL_AGES,
};

/* By chance; rings_set_age() chooses. */
void rings_begin(void);
void rings_set_age(enum kernel_age age);
void rings_end(void);

/* Something has come that operations on the file may wait for. */
void rings_touch(struct file *file);

/* Of a ring and group: buffers that the kernel has, and that completions bring which have not been
 * seen. */
struct io_uring;
uint32_t rings_published(const struct io_uring *ring, uint32_t group);
uint32_t rings_returned(const struct io_uring *ring, uint32_t group);

/* Called each time that the program enters the kernel to wait: a step has been made. How many there
 * were. */
void rings_on_step(void (*call)(void));
uint32_t rings_steps(void);

/* The disk: disk.c. */
struct disk_file {
    struct disk_file *next;
    uint32_t number;
    char path[256];
    uint8_t *bytes;
    size_t size, room;
};

void disk_begin(void);
void disk_end(void);
struct disk_file *disk_first(void);
struct disk_file *disk_find(const char *path);
void disk_remove(struct disk_file *file);

/* An open file of the disk, made where @create. -ENOENT, -EEXIST, -ENOSPC */
int disk_open(const char *path, bool create);

/* At its end, whatever goes wrong otherwise. */
void disk_put(struct disk_file *file, const void *bytes, size_t n);

/* What the calls return: bytes or 0, or -errno. */
int disk_write(struct disk_file *disk, const struct iovec *pieces, size_t count, uint64_t offset);
int disk_read(struct disk_file *disk, const struct iovec *pieces, size_t count, uint64_t offset);
int disk_rename(const char *from, const char *to, unsigned flags);

/* Microseconds that a call takes. */
uint64_t disk_delay(void);

#endif
