// Which file it is, by device and inode.  By system call: libc's stat() is a newer symbol than this library may need.
#ifndef FILE_ID_H
#define FILE_ID_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct file_id {
    uint64_t device, inode;
};

// Of the file at `path`; with "" of the descriptor `fd`.
static inline bool file_id(int fd, const char *path, struct file_id *id)
{
    struct stat status;
    if (syscall(SYS_newfstatat, fd, path, &status, *path ? 0 : AT_EMPTY_PATH) != 0)
        return false;
    *id = (struct file_id){(uint64_t)status.st_dev, (uint64_t)status.st_ino};
    return true;
}

#endif
