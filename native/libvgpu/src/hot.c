#include "hot.h"

struct hot hot __attribute__((aligned(64)));
