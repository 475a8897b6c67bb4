#include "life.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "process.h"

// Locks of an open file description: they aren't lost when another descriptor of the file is closed.
#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

#define HIGH_FD 64 // out of the way of programs that count on low numbers

static int fd = -1;
static struct file_id own_file;
static _Atomic uint64_t own_view;

static bool is_ours(int descriptor)
{
    struct file_id id;
    return file_id(descriptor, "", &id) && id.device == own_file.device && id.inode == own_file.inode;
}

void life_begin(const char *path, struct file_id file)
{
    own_file = file;
    // the one from before may have been closed by the program, and its number given to another file
    if (fd >= 0 && is_ours(fd))
        return;
    int low = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
    fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
    if (fd >= 0)
        close(low);
    else
        fd = low;
    if (fd >= 0 && !is_ours(fd)) {
        close(fd);
        fd = -1;
    }
}

uint64_t life_view(void)
{
    uint64_t view = atomic_load_explicit(&own_view, memory_order_relaxed);
    if (view)
        return view;
    struct file_id proc, space;
    if (!file_id(AT_FDCWD, "/proc", &proc) || !file_id(AT_FDCWD, "/proc/self/ns/pid", &space))
        return 0;
    view = space.inode * UINT64_C(0x9e3779b97f4a7c15) ^ proc.device;
    view += view == 0;
    atomic_store_explicit(&own_view, view, memory_order_relaxed);
    return view;
}

static struct flock lock_on(size_t offset, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = 1};
}

static size_t owner_byte(unsigned slot)
{
    return offsetof(struct hami_usage, processes) + slot * sizeof(struct hami_process) +
           offsetof(struct hami_process, owner);
}

static size_t reaper_byte(unsigned slot)
{
    return offsetof(struct hami_usage, processes) + slot * sizeof(struct hami_process) +
           offsetof(struct hami_process, reaper);
}

static size_t context_byte(unsigned card)
{
    return offsetof(struct hami_usage, cards) + card * sizeof(struct hami_card_usage) +
           offsetof(struct hami_card_usage, context_bytes);
}

// 1: it is ours now; 0: somebody else has it; -1: there are no such locks here.
static int try_lock(size_t offset)
{
    struct flock lock = lock_on(offset, F_WRLCK);
    if (fd < 0)
        return -1;
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return 1;
    return errno == EAGAIN || errno == EACCES ? 0 : -1;
}

static void unlock(size_t offset)
{
    struct flock lock = lock_on(offset, F_UNLCK);
    if (fd >= 0)
        fcntl(fd, F_OFD_SETLK, &lock);
}

// 1: somebody else has it; 0: nobody; -1: there are no such locks here.
static int is_locked(size_t offset)
{
    struct flock lock = lock_on(offset, F_WRLCK);
    if (fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) != 0)
        return -1;
    return lock.l_type != F_UNLCK;
}

bool life_of_owner(const struct hami_usage *usage, unsigned slot)
{
    struct hami_process *process = (struct hami_process *)&usage->processes[slot];
    uint64_t owner = atomic_load(&process->owner), view = atomic_load(&process->view);
    if (view == life_view())
        return process_alive(owner);
    int locked = is_locked(owner_byte(slot));
    if (locked == 0 && view != 0)
        return false;
    // without a view it is being claimed, or was by a library that had none yet
    return locked == 1 || view != 0 || process_alive(owner);
}

bool life_hold(unsigned slot)
{
    return try_lock(owner_byte(slot)) != 0;
}

void life_let_go(unsigned slot)
{
    unlock(owner_byte(slot));
}

bool life_start_clearing(unsigned slot)
{
    return try_lock(reaper_byte(slot)) != 0;
}

void life_end_clearing(unsigned slot)
{
    unlock(reaper_byte(slot));
}

bool life_start_learning(unsigned card)
{
    return try_lock(context_byte(card)) != 0;
}

void life_end_learning(unsigned card)
{
    unlock(context_byte(card));
}

void life_after_fork(void)
{
    // the parent's locks must end with the parent
    if (fd >= 0 && is_ours(fd))
        close(fd);
    fd = -1;
    // the first child after unshare() is in another PID namespace
    atomic_store(&own_view, 0);
}
