#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct board *board_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0)
        return NULL;
    void *at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

bool board_wait_for(_Atomic uint32_t *word, uint32_t while_it_is, int seconds)
{
    struct timespec start, now, left = {.tv_sec = seconds};
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (atomic_load(word) == while_it_is) {
        syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, &left, NULL, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > seconds)
            return false;
    }
    return true;
}

void board_wait(_Atomic uint32_t *word, uint32_t while_it_is)
{
    while (atomic_load(word) == while_it_is)
        syscall(SYS_futex, word, FUTEX_WAIT, while_it_is, NULL, NULL, 0);
}

void board_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool board_skips(const struct board *board, unsigned worker, uint64_t number)
{
    uint64_t wanted = (uint64_t)worker << 56 | number;
    uint64_t low = 0, high = board->skipped_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (board->skipped[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < board->skipped_count && board->skipped[low] == wanted;
}
