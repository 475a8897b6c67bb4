#include "op.h"
#include "context.h"
#include "op_ready.h"
#include "perform.h"

struct op *op_ready;

bool op_is_kernel(const struct op *op)
{
    return op->work.type == CU_GRAPH_NODE_TYPE_KERNEL;
}

// What waits for the host: nobody can say when it ends, so nothing behind it may be queued on the card.
static bool is_opaque(const struct op *op)
{
    if (op->work.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP)
        return memory_op_waits(op->work.memory_ops.list);
    return op->work.type == CU_GRAPH_NODE_TYPE_HOST;
}

struct op *op_new(const struct work *work)
{
    struct op *op = calloc(1, sizeof *op);
    if (!op)
        return NULL;
    op->work = *work;
    op->card = work->context->card;
    op->references = 2; // the caller's, and one until it's performed
    op->work.context->unfinished++;
    return op;
}

struct op *op_hold(struct op *op)
{
    if (op)
        op->references++;
    return op;
}

void op_release(struct op *op)
{
    if (op && --op->references == 0) {
        work_drop(&op->work);
        free(op->followers);
        free(op);
    }
}

// Whether a follower may be queued on its card as soon as `op` is dispatched.
static bool lets_through(const struct op *op, const struct op *follower)
{
    return !is_opaque(op) && op->card == follower->card;
}

void op_after(struct op *op, struct op *predecessor)
{
    if (!predecessor)
        return;
    if (predecessor->performed) {
        if (predecessor->time > op->time)
            op->time = predecessor->time;
        return;
    }
    if (predecessor->follower_count == predecessor->follower_room) {
        predecessor->follower_room = predecessor->follower_room ? predecessor->follower_room * 2 : 4;
        predecessor->followers =
            realloc(predecessor->followers, predecessor->follower_room * sizeof *predecessor->followers);
        if (!predecessor->followers)
            abort();
    }
    predecessor->followers[predecessor->follower_count++] = op_hold(op);
    op->unperformed++;
    op->undispatched += !(predecessor->dispatched && lets_through(predecessor, op));
}

static void queue_on_card(struct op *op)
{
    struct engine_queues queues = sim_queues(op->card);
    sim_lock();
    sim_bring_up(op->card);
    op->position = engine_submit(&queues, sim_self(), kernel_cost(&op->work.kernel));
    sim_unlock();
}

static void become_ready(struct op *op)
{
    struct op **end = &op_ready;
    while (*end)
        end = &(*end)->next_ready;
    op->next_ready = NULL;
    *end = op;
}

void op_dispatch(struct op *first)
{
    // A chain can be long: follow it by a list, not by recursion.  next_ready is free for that until an op is ready.
    struct op *list = first;
    first->next_ready = NULL;
    while (list) {
        struct op *op = list;
        list = op->next_ready;
        op->dispatched = true;
        if (op_is_kernel(op))
            queue_on_card(op);
        for (unsigned i = 0; i < op->follower_count; i++) {
            struct op *follower = op->followers[i];
            if (lets_through(op, follower) && --follower->undispatched == 0) {
                follower->next_ready = list;
                list = follower;
            }
        }
        if (op->unperformed == 0)
            become_ready(op);
    }
}

void op_finish(struct op *op)
{
    struct op **link = &op_ready;
    while (*link != op)
        link = &(*link)->next_ready;
    *link = op->next_ready;
    op->performed = true;
    op->work.context->unfinished--;
    for (unsigned i = 0; i < op->follower_count; i++) {
        struct op *follower = op->followers[i];
        if (op->time > follower->time)
            follower->time = op->time;
        follower->unperformed--;
        if (!lets_through(op, follower) && --follower->undispatched == 0)
            op_dispatch(follower);
        else if (follower->dispatched && follower->unperformed == 0)
            become_ready(follower);
        op_release(follower);
    }
    op->follower_count = 0;
    op_release(op);
}
