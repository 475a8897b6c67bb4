#include "judge.h"

#include <fcntl.h>
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hamisim.h"

#define MIB (UINT64_C(1) << 20)

static void *make_page(const char *directory, const char *name, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        return NULL;
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

bool judge_make_slice(struct judge *judge, const char *directory, struct board *board)
{
    *judge = (struct judge){.board = board,
                            .limits = make_page(directory, "limits", sizeof *judge->limits),
                            .usage = make_page(directory, "usage", sizeof *judge->usage)};
    if (!judge->limits || !judge->usage || nvmlInit_v2() != NVML_SUCCESS)
        return false;
    judge->usage->magic = HAMI_USAGE_MAGIC;
    judge->usage->version = HAMI_PAGE_VERSION;
    judge->usage->size = sizeof *judge->usage;
    judge->limits->magic = HAMI_LIMITS_MAGIC;
    judge->limits->version = HAMI_PAGE_VERSION;
    judge->limits->size = sizeof *judge->limits;
    judge->limits->card_count = CARDS;
    for (unsigned card = 0; card < CARDS; card++) {
        nvmlDevice_t device;
        if (nvmlDeviceGetHandleByIndex_v2(card, &device) != NVML_SUCCESS ||
            nvmlDeviceGetUUID(device, judge->limits->cards[card].uuid, HAMI_UUID_SIZE) != NVML_SUCCESS)
            return false;
        judge->limits->cards[card].vram = judge->bound[card] = board->limit[card];
    }
    return true;
}

void judge_resize(struct judge *judge, unsigned card, uint64_t bytes)
{
    uint64_t used = hamisim_used(card);
    judge->board->limit[card] = bytes;
    judge->limits->sequence++;
    judge->limits->cards[card].vram = bytes;
    judge->limits->sequence++;
    judge->bound[card] = used > bytes ? used : bytes;
}

static uint64_t all_in_page(const struct hami_usage *usage, unsigned card)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < HAMI_MAX_PROCESSES; i++)
        sum += usage->processes[i].held[card] + usage->processes[i].overhead[card];
    return sum;
}

bool judge_use(struct judge *judge)
{
    for (unsigned card = 0; card < CARDS; card++) {
        uint64_t used = hamisim_used(card), limit = judge->board->limit[card];
        if (used > judge->bound[card]) {
            snprintf(
                judge->complaint, sizeof judge->complaint,
                "Card %u: the driver counts %llu KiB, over the limit of %llu KiB by %llu KiB; the page says %llu KiB.",
                card, (unsigned long long)used >> 10, (unsigned long long)limit >> 10,
                (unsigned long long)(used - limit) >> 10, (unsigned long long)all_in_page(judge->usage, card) >> 10);
            return false;
        }
        judge->bound[card] = used > limit ? used : limit;
    }
    return true;
}

uint64_t judge_page(const struct judge *judge, unsigned worker, unsigned card)
{
    char comm[16];
    uint64_t sum = 0;
    snprintf(comm, sizeof comm, "fuzz-%u", worker);
    for (unsigned i = 0; i < HAMI_MAX_PROCESSES; i++) {
        struct hami_process *process = &judge->usage->processes[i];
        if (process->owner && strncmp(process->comm, comm, HAMI_COMM_SIZE) == 0)
            sum += process->held[card] + process->overhead[card];
    }
    return sum;
}

// Nobody is at anything.
static bool rests(struct judge *judge)
{
    for (unsigned i = 0; i < HAMI_MAX_PROCESSES; i++) {
        uint64_t moving = judge->usage->processes[i].moving;
        if (moving == 0)
            continue;
        snprintf(judge->complaint, sizeof judge->complaint, "Slot %u, %s: %llu KiB are on the move for ever.", i,
                 judge->usage->processes[i].comm, (unsigned long long)moving >> 10);
        return false;
    }
    return true;
}

bool judge_ledger(struct judge *judge, const pid_t *pids, unsigned workers)
{
    if (!rests(judge))
        return false;
    for (unsigned card = 0; card < CARDS; card++) {
        uint64_t sum = 0;
        for (unsigned i = 0; i < workers; i++) {
            uint64_t page = judge_page(judge, i, card);
            uint64_t held = pids[i] > 0 ? hamisim_held(card, pids[i]) : 0;
            uint64_t beyond = pids[i] > 0 ? judge->board->workers[i].beyond[card] : 0;
            sum += page;
            if (page == held + beyond)
                continue;
            snprintf(judge->complaint, sizeof judge->complaint,
                     "Card %u, worker %u: the page says %llu KiB and the driver %llu KiB, + %llu KiB exported before: "
                     "%+lld KiB.",
                     card, i, (unsigned long long)page >> 10, (unsigned long long)held >> 10,
                     (unsigned long long)beyond >> 10, (long long)(page - held - beyond) / 1024);
            return false;
        }
        if (sum != all_in_page(judge->usage, card)) {
            snprintf(judge->complaint, sizeof judge->complaint, "Card %u: slots of nobody hold %llu KiB.", card,
                     (unsigned long long)(all_in_page(judge->usage, card) - sum) >> 10);
            return false;
        }
    }
    return true;
}

bool judge_empty(struct judge *judge, const pid_t *pids, unsigned workers)
{
    for (unsigned card = 0; card < CARDS; card++) {
        for (unsigned i = 0; i < workers; i++) {
            uint64_t held = hamisim_held(card, pids[i]);
            if (held == 0)
                continue;
            snprintf(judge->complaint, sizeof judge->complaint, "Card %u, worker %u: %llu KiB were not given back.",
                     card, i, (unsigned long long)held >> 10);
            return false;
        }
    }
    return true;
}
