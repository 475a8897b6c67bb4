#include "turns_page.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"
#include "say.h"
#include "slice.h"

#define PATH_SIZE 768

static struct hami_turns *page;
static ino_t own_inode;
static _Atomic(struct hami_turns_member *) joined;
static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;

bool turns_file_status(const char *path, struct stat *status)
{
    return syscall(SYS_newfstatat, AT_FDCWD, path, status, 0) == 0;
}

static struct hami_turns *map_own(void)
{
    char path[PATH_SIZE];
    struct stat status;
    void *at = MAP_FAILED;
    if (slice()->directory[0] && snprintf(path, sizeof path, "%s/turns", slice()->directory) < (int)sizeof path) {
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
        if (fd >= 0 && turns_file_status(path, &status) && status.st_size == (off_t)sizeof(struct hami_turns)) {
            at = mmap(NULL, sizeof(struct hami_turns), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            own_inode = status.st_ino;
        }
        if (fd >= 0)
            close(fd);
    }
    if (at == MAP_FAILED)
        at = mmap(NULL, sizeof(struct hami_turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void clear(struct hami_turns_member *member)
{
    atomic_store(&member->begun_ns, 0);
    for (unsigned card = 0; card < HAMI_MAX_CARDS; card++) {
        atomic_store(&member->cards[card].until_ns, 0);
        atomic_store(&member->cards[card].asks_ns, 0);
    }
    for (unsigned lane = 0; lane < HAMI_TURNS_LANES; lane++) {
        atomic_store(&member->lane_card[lane], 0);
        atomic_store(&member->lanes[lane].sent, 0);
        atomic_store(&member->lanes[lane].done, 0);
    }
}

static struct hami_turns_member *claim(uint64_t self)
{
    for (uint32_t i = 0; i < HAMI_TURNS_MEMBERS; i++) {
        struct hami_turns_member *member = &page->members[i];
        uint64_t owner = atomic_load(&member->owner);
        if ((owner && process_alive(owner)) || !atomic_compare_exchange_strong(&member->owner, &owner, self))
            continue;
        clear(member);
        uint32_t high = atomic_load(&page->member_high);
        while (high <= i && !atomic_compare_exchange_weak(&page->member_high, &high, i + 1))
            ;
        return member;
    }
    return NULL;
}

void turns_page_bury(struct hami_turns_member *member, uint64_t owner)
{
    clear(member);
    atomic_compare_exchange_strong(&member->owner, &owner, 0);
}

static struct hami_turns_member *join(void)
{
    int saved = errno;
    pthread_mutex_lock(&joining);
    struct hami_turns_member *member = atomic_load(&joined);
    if (!page)
        page = map_own();
    if (!member && page && (member = claim(process_self())))
        atomic_store_explicit(&joined, member, memory_order_release);
    pthread_mutex_unlock(&joining);
    if (!member)
        say_once("hami: CUDA is refused, because %d processes of this slice use its core share already. "
                 "End some of them.",
                 HAMI_TURNS_MEMBERS);
    errno = saved;
    return member;
}

struct hami_turns_member *turns_page_member(void)
{
    struct hami_turns_member *member = atomic_load_explicit(&joined, memory_order_acquire);
    return __builtin_expect(member != NULL, 1) ? member : join();
}

struct hami_turns *turns_page(void)
{
    return turns_page_member() ? page : NULL;
}

ino_t turns_page_inode(void)
{
    return own_inode;
}

bool turns_pending(const struct hami_turns_member *member, unsigned card, uint64_t now)
{
    uint64_t until = turns_word(&member->cards[card].until_ns);
    if ((until & 1) && until > now && until - now < TURNS_FAR_NS)
        return true;
    for (unsigned lane = 0; lane < HAMI_TURNS_LANES; lane++)
        if (atomic_load_explicit(&member->lane_card[lane], memory_order_relaxed) == card + 1 &&
            atomic_load_explicit(&member->lanes[lane].sent, memory_order_relaxed) !=
                atomic_load_explicit(&member->lanes[lane].done, memory_order_acquire))
            return true;
    return false;
}

void turns_page_after_fork(void)
{
    pthread_mutex_init(&joining, NULL);
    atomic_store(&joined, NULL);
}
