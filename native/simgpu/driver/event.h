// Events: a mark in a stream's order, with the time at which it was reached.
#ifndef SIM_EVENT_H
#define SIM_EVENT_H

#include "op.h"

struct node;

struct event {
    unsigned card;
    unsigned flags;
    struct op *record; // NULL: never recorded
    // Recorded in a capture: what is before it there.
    unsigned long long capture_id; // 0: not in a capture
    struct node **tips;
    size_t tip_count;
};

struct event *event_of(CUevent handle);
void event_set_record(struct event *event, struct op *op);

#endif
