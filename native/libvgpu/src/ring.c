#include "ring.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "slice.h"
#include "turns_page.h"

#define PATH_SIZE       768
#define NAME_LENGTH     128
#define SCAN_NS         (10 * TURN_MS)  // between looks at who is there
#define ALIVE_NS        (100 * TURN_MS) // between looks at who of our own slice still lives
#define HEARTBEAT_NS    (5 * TURN_MS)   // a waiting launch renews its wish far more often
#define MAX_CONTEXTS    4               // of one neighbour, that are believed
#define READ_MEMBERS    16
#define PASSED_OVER     16
#define UNDERSTOOD_MIN  (-20 * (int64_t)TURN_MS)
#define UNEXPLAINED_MAX (INT64_C(1000) * (int64_t)TURN_MS)

struct neighbour {
    char name[NAME_LENGTH];
    int fd;
    ino_t inode;
    struct hami_share share;
    bool stays; // found in the present scan
    bool was_pending;
    int64_t unexplained; // ns on the card that its virtual time doesn't show
    unsigned passed_over;
    uint64_t seen_ns, active_ns;
    uint64_t virtual_ns, spent_ns, changed_ns;
};

struct ring {
    bool scanned;
    struct timespec changed;
    uint64_t scanned_ns, alive_ns;
    size_t count;
    struct neighbour neighbours[RING_MAX];
    struct hami_turns snapshot; // of one neighbour's page, only as much as is read
};

static struct ring rings[HAMI_MAX_CARDS];

// ---- who is there ------------------------------------------------------------------------------------------------------

static bool read_share(const char *directory, const char *name, struct hami_share *share)
{
    char path[PATH_SIZE];
    if (snprintf(path, sizeof path, "%s/%s.share", directory, name) >= (int)sizeof path)
        return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    bool whole = pread(fd, share, sizeof *share, 0) == (ssize_t)sizeof *share;
    close(fd);
    return whole && share->magic == HAMI_SHARE_MAGIC && share->version == HAMI_TURNS_VERSION &&
           share->card < HAMI_MAX_CARDS && share->cores >= 1 && share->cores <= 100;
}

static void close_neighbour(struct neighbour *neighbour)
{
    close(neighbour->fd);
    neighbour->fd = -1;
}

static void meet(struct ring *ring, const char *directory, const char *name)
{
    char path[PATH_SIZE];
    struct stat status;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path || strlen(name) >= NAME_LENGTH)
        return;
    if (!turns_file_status(path, &status) || status.st_ino == turns_page_inode() ||
        status.st_size != (off_t)sizeof(struct hami_turns))
        return;
    for (size_t i = 0; i < ring->count; i++) {
        struct neighbour *known = &ring->neighbours[i];
        if (known->inode == status.st_ino && strcmp(known->name, name) == 0) {
            known->stays = true;
            return;
        }
    }
    struct neighbour new = {.stays = true, .inode = status.st_ino};
    if (ring->count == RING_MAX || !read_share(directory, name, &new.share))
        return;
    new.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (new.fd < 0)
        return;
    snprintf(new.name, sizeof new.name, "%s", name);
    ring->neighbours[ring->count++] = new;
}

static void scan(unsigned card, struct ring *ring)
{
    char directory[PATH_SIZE];
    if (snprintf(directory, sizeof directory, "%s/cards/%s", slice()->directory, slice()->limits->cards[card].uuid) >=
        (int)sizeof directory)
        return;
    struct stat status;
    if (!turns_file_status(directory, &status))
        memset(&status, 0, sizeof status);
    if (ring->scanned && memcmp(&status.st_mtim, &ring->changed, sizeof ring->changed) == 0)
        return;
    ring->scanned = true;
    ring->changed = status.st_mtim;
    for (size_t i = 0; i < ring->count; i++)
        ring->neighbours[i].stays = false;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char name[NAME_LENGTH];
        size_t length = strlen(entry->d_name);
        if (length <= 6 || length - 6 >= sizeof name || strcmp(entry->d_name + length - 6, ".share") != 0)
            continue;
        memcpy(name, entry->d_name, length - 6);
        name[length - 6] = 0;
        meet(ring, directory, name);
    }
    if (entries)
        closedir(entries);
    for (size_t i = ring->count; i-- > 0;) {
        if (ring->neighbours[i].stays)
            continue;
        close_neighbour(&ring->neighbours[i]);
        ring->neighbours[i] = ring->neighbours[--ring->count];
    }
}

// ---- what they say -----------------------------------------------------------------------------------------------------

static bool is_asking(uint64_t asks, uint64_t now)
{
    uint64_t beat = asks & ~HAMI_TURN_BITS;
    return asks & HAMI_TURN_BITS && beat + HEARTBEAT_NS > now && beat < now + HEARTBEAT_NS;
}

static unsigned read_members(const struct hami_turns *theirs, unsigned members, unsigned card, uint64_t now,
                             struct turn_other *out)
{
    unsigned contexts = 0;
    for (unsigned i = 0; i < members; i++) {
        const struct hami_turns_member *member = &theirs->members[i];
        if (!turns_word(&member->owner))
            continue;
        uint64_t until = turns_word(&member->cards[card].until_ns), asks = turns_word(&member->cards[card].asks_ns);
        if (turns_pending(member, card, now)) {
            contexts++;
            if (until > out->until_ns && until < now + TURNS_FAR_NS)
                out->until_ns = until;
        }
        bool asking = is_asking(asks, now);
        out->wants |= asking;
        out->yields |= asking && (asks & HAMI_TURN_BITS) == HAMI_TURN_YIELDS;
    }
    return contexts < MAX_CONTEXTS ? contexts : MAX_CONTEXTS;
}

// How much of the time on the card its virtual time explains.
static void weigh(struct neighbour *neighbour, uint64_t virtual_ns, bool pending, uint64_t shared_by, uint64_t now)
{
    uint64_t dt = neighbour->seen_ns ? now - neighbour->seen_ns : 0;
    if (dt > 100 * TURN_MS)
        dt = 100 * TURN_MS;
    if (pending && neighbour->was_pending)
        neighbour->unexplained += (int64_t)(dt / (shared_by ? shared_by : 1) * 15 / 16);
    if (virtual_ns > neighbour->virtual_ns && neighbour->seen_ns) {
        uint64_t gone = virtual_ns - neighbour->virtual_ns, possible = now - neighbour->changed_ns + 10 * TURN_MS;
        if (gone / 100 > possible) // not even with the smallest share and the whole card
            neighbour->unexplained = 2 * (int64_t)RING_DOUBT_NS;
        else
            neighbour->unexplained -= (int64_t)(gone * neighbour->share.cores / 100);
    }
    if (virtual_ns != neighbour->virtual_ns || !neighbour->seen_ns)
        neighbour->changed_ns = now;
    if (neighbour->unexplained < UNDERSTOOD_MIN)
        neighbour->unexplained = UNDERSTOOD_MIN;
    if (neighbour->unexplained > UNEXPLAINED_MAX)
        neighbour->unexplained = UNEXPLAINED_MAX;
    neighbour->virtual_ns = virtual_ns;
    neighbour->was_pending = pending;
    neighbour->seen_ns = now;
}

static bool is_believed(const struct neighbour *neighbour)
{
    return neighbour->unexplained < (int64_t)RING_DOUBT_NS && neighbour->passed_over < PASSED_OVER;
}

static bool read_neighbour(struct ring *ring, struct neighbour *neighbour, struct turn_other *out, unsigned *contexts,
                           struct ring_view *view, uint64_t now)
{
    size_t head = offsetof(struct hami_turns, members), size = sizeof(struct hami_turns_member);
    void *bytes = &ring->snapshot;
    const struct hami_turns *theirs = &ring->snapshot;
    unsigned card = neighbour->share.card;
    ssize_t got = pread(neighbour->fd, bytes, head + 2 * size, 0);
    if (got < (ssize_t)head || theirs->magic != HAMI_TURNS_MAGIC || theirs->version != HAMI_TURNS_VERSION)
        return false;
    uint32_t members = atomic_load_explicit(&theirs->member_high, memory_order_relaxed);
    members = members < READ_MEMBERS ? members : READ_MEMBERS;
    if (members > 2)
        got = pread(neighbour->fd, bytes, head + members * size, 0);
    if (got < (ssize_t)(head + members * size))
        return false;
    *out = (struct turn_other){.cores = neighbour->share.cores,
                               .high = neighbour->share.priority == HAMI_PRIORITY_HIGH,
                               .first = neighbour->inode < turns_page_inode(),
                               .virtual_ns = turns_word(&theirs->cards[card].virtual_ns)};
    *contexts = read_members(theirs, members, card, now, out);
    out->pending = *contexts > 0;
    if (out->pending)
        neighbour->passed_over = 0;
    if (out->pending || out->wants)
        neighbour->active_ns = now;
    out->quiet_ns = now - neighbour->active_ns;
    uint64_t spent = turns_word(&theirs->cards[card].spent_ns);
    if (neighbour->seen_ns && spent > neighbour->spent_ns && spent - neighbour->spent_ns <= now - neighbour->seen_ns)
        view->spent_ns += spent - neighbour->spent_ns;
    neighbour->spent_ns = spent;
    return true;
}

static void look_at_own(unsigned card, struct ring *ring, struct ring_view *view, uint64_t now)
{
    struct hami_turns *page = turns_page();
    const struct hami_turns_member *self = turns_page_member();
    uint32_t high = atomic_load_explicit(&page->member_high, memory_order_relaxed);
    bool ask = now - ring->alive_ns > ALIVE_NS;
    view->own = 0;
    view->own_wants = false;
    for (uint32_t i = 0; i < high && i < HAMI_TURNS_MEMBERS; i++) {
        struct hami_turns_member *member = &page->members[i];
        uint64_t owner = turns_word(&member->owner);
        if (!owner || member == self)
            continue;
        view->own_wants |= is_asking(turns_word(&member->cards[card].asks_ns), now);
        if (!turns_pending(member, card, now))
            continue;
        if (ask && !process_alive(owner)) {
            turns_page_bury(member, owner);
            continue;
        }
        view->own++;
    }
    if (ask)
        ring->alive_ns = now;
}

void ring_look(unsigned card, struct ring_view *view, bool pending, uint64_t now, uint64_t age)
{
    if (now - view->looked_ns < age && view->looked_ns)
        return;
    struct ring *ring = &rings[card];
    if (!ring->scanned || now - ring->scanned_ns > SCAN_NS) {
        ring->scanned_ns = now;
        scan(card, ring);
    }
    look_at_own(card, ring, view, now);
    unsigned contexts[RING_MAX], total = 0;
    struct turn_other seen[RING_MAX];
    bool sound[RING_MAX];
    for (size_t i = 0; i < ring->count; i++) {
        sound[i] = read_neighbour(ring, &ring->neighbours[i], &seen[i], &contexts[i], view, now);
        total += sound[i] && is_believed(&ring->neighbours[i]) ? contexts[i] : 0;
    }
    view->count = 0;
    view->contexts = 0;
    view->known = (unsigned)ring->count;
    for (size_t i = 0; i < ring->count; i++) {
        struct neighbour *neighbour = &ring->neighbours[i];
        if (!sound[i])
            continue;
        weigh(neighbour, seen[i].virtual_ns, seen[i].pending, total + view->own + pending, now);
        if (!is_believed(neighbour))
            continue;
        if (seen[i].pending || seen[i].wants)
            view->company_ns = now;
        view->contexts += contexts[i];
        view->others[view->count++] = seen[i];
    }
    view->looked_ns = now;
}

void ring_passed_over(unsigned card)
{
    struct ring *ring = &rings[card];
    struct neighbour *first = NULL;
    for (size_t i = 0; i < ring->count; i++) {
        struct neighbour *neighbour = &ring->neighbours[i];
        if (neighbour->active_ns == neighbour->seen_ns && !neighbour->was_pending &&
            (!first || neighbour->virtual_ns < first->virtual_ns))
            first = neighbour;
    }
    if (first)
        first->passed_over++;
}

void ring_after_fork(void)
{
    // the descriptors are ours as well: their offset isn't used
    for (unsigned card = 0; card < HAMI_MAX_CARDS; card++)
        rings[card].scanned = false;
}
