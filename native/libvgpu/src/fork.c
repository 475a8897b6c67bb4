#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>

#include "cards.h"
#include "context.h"
#include "driver.h"
#include "footprint.h"
#include "graph.h"
#include "heap.h"
#include "library.h"
#include "life.h"
#include "member.h"
#include "namespaces.h"
#include "objects.h"
#include "physical.h"
#include "pool.h"
#include "share.h"
#include "small.h"

// Locks may be held by threads that the child doesn't have: each owner makes its lock anew and drops what was the parent's.
static void in_child(void)
{
    driver_after_fork();
    cards_after_fork();
    life_after_fork();
    member_after_fork();
    namespaces_after_fork();
    objects_after_fork();
    physical_after_fork();
    small_after_fork();
    context_after_fork();
    footprint_after_fork();
    pool_after_fork();
    graph_after_fork();
    heap_after_fork();
    library_after_fork();
    share_after_fork();
}

void fork_watch(void)
{
    static atomic_flag watching = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&watching))
        pthread_atfork(NULL, NULL, in_child);
}
