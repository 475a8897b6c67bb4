#include "engine.h"

#include <string.h>

static struct engine_work *work_of(const struct engine_queues *q, int slot)
{
    return (struct engine_work *)((char *)q->first + (size_t)slot * q->stride);
}

static bool has_work(const struct engine_queues *q, int slot)
{
    const struct engine_work *w = work_of(q, slot);
    return w->done < w->submitted;
}

static int next_with_work(const struct engine_queues *q, int after)
{
    for (uint32_t i = 1; i <= q->count; i++) {
        int slot = (int)(((uint32_t)(after + 1) + i - 1) % q->count);
        if (has_work(q, slot))
            return slot;
    }
    return -1;
}

static void count_busy(struct engine_usage *usage, uint64_t start, uint64_t length)
{
    while (length > 0) {
        uint64_t number = start / ENGINE_BUCKET_NS, room = (number + 1) * ENGINE_BUCKET_NS - start;
        uint64_t part = length < room ? length : room;
        unsigned i = (unsigned)(number % ENGINE_BUCKETS);
        if (usage->stamp[i] != number) {
            usage->stamp[i] = number;
            usage->busy[i] = 0;
        }
        usage->busy[i] += part;
        start += part;
        length -= part;
    }
}

static void record_run(struct engine_work *work, uint64_t start, uint64_t length)
{
    struct engine_run *last = &work->runs[(work->run_count - 1) % ENGINE_HISTORY];
    if (work->run_count > 0 && last->to == work->done && last->start + (last->to - last->from) == start)
        last->to += length;
    else
        work->runs[work->run_count++ % ENGINE_HISTORY] = (struct engine_run){start, work->done, work->done + length};
    work->done += length;
    count_busy(&work->usage, start, length);
}

static void choose(struct engine_queues *q)
{
    struct engine *e = q->engine;
    e->current = next_with_work(q, e->current);
    e->slice_left = ENGINE_SLICE_NS;
    if (e->last && e->last != e->current + 1)
        e->switch_left = e->switch_ns;
    e->last = e->current + 1;
}

// True: some of the time until `now` was spent on it.
static bool switches(struct engine *e, uint64_t now)
{
    uint64_t run = e->switch_left < now - e->time ? e->switch_left : now - e->time;
    e->switch_left -= run;
    e->time += run;
    return run > 0;
}

void engine_advance(struct engine_queues *q, uint64_t now)
{
    struct engine *e = q->engine;
    while (e->time < now && e->active > 0) {
        bool others = e->active > 1;
        if (e->current < 0 || !has_work(q, e->current) || (others && e->slice_left == 0))
            choose(q);
        if (switches(e, now))
            continue;
        struct engine_work *work = work_of(q, e->current);
        uint64_t run = work->submitted - work->done;
        if (run > now - e->time)
            run = now - e->time;
        if (others && run > e->slice_left)
            run = e->slice_left;
        record_run(work, e->time, run);
        count_busy(&e->usage, e->time, run);
        e->busy += run;
        e->time += run;
        e->slice_left -= run < e->slice_left ? run : e->slice_left;
        if (!has_work(q, e->current))
            e->active--;
    }
    if (e->time < now)
        e->time = now;
}

uint64_t engine_submit(struct engine_queues *q, int slot, uint64_t cost)
{
    struct engine_work *work = work_of(q, slot);
    if (cost > 0 && !has_work(q, slot) && q->engine->active++ == 1)
        q->engine->slice_left = ENGINE_SLICE_NS;
    return work->submitted += cost;
}

uint64_t engine_earliest(const struct engine_queues *q, int slot, uint64_t position)
{
    const struct engine *e = q->engine;
    const struct engine_work *work = work_of(q, slot);
    if (work->done >= position)
        return e->time;
    uint64_t at = e->time + e->switch_left + (position - work->done);
    if (e->current >= 0 && e->current != slot && has_work(q, e->current)) {
        const struct engine_work *ahead = work_of(q, e->current);
        uint64_t left = ahead->submitted - ahead->done;
        at += left < e->slice_left ? left : e->slice_left;
    }
    return at;
}

bool engine_reached(const struct engine_work *work, uint64_t position, uint64_t *when)
{
    if (work->done < position)
        return false;
    uint64_t kept = work->run_count < ENGINE_HISTORY ? work->run_count : ENGINE_HISTORY;
    for (uint64_t i = 1; i <= kept; i++) {
        const struct engine_run *run = &work->runs[(work->run_count - i) % ENGINE_HISTORY];
        *when = run->start;
        if (run->from < position) {
            *when += (position < run->to ? position : run->to) - run->from;
            break;
        }
    }
    return true;
}

void engine_forget(struct engine_queues *q, int slot)
{
    if (has_work(q, slot))
        q->engine->active--;
    if (q->engine->current == slot)
        q->engine->slice_left = 0;
    memset(work_of(q, slot), 0, sizeof(struct engine_work));
}

unsigned engine_percent(const struct engine_usage *usage, uint64_t now)
{
    uint64_t number = now / ENGINE_BUCKET_NS, busy = 0;
    for (uint64_t back = 1; back <= 10 && back <= number; back++) {
        unsigned i = (unsigned)((number - back) % ENGINE_BUCKETS);
        if (usage->stamp[i] == number - back)
            busy += usage->busy[i];
    }
    return (unsigned)(busy * 100 / (10 * ENGINE_BUCKET_NS));
}
