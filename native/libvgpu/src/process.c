#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct stat_line {
    uint32_t pid;
    char name[16];
    char state;
    uint64_t threads;
    uint64_t start;
};

static uint64_t number(const char *text)
{
    uint64_t value = 0;
    while (*text >= '0' && *text <= '9')
        value = value * 10 + (uint64_t)(*text++ - '0');
    return value;
}

// The fields of /proc/PID/stat that we need: 1 pid, 2 (name), 3 state, 20 num_threads, 22 starttime.
static bool read_stat(const char *path, struct stat_line *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char line[1024];
    ssize_t length = read(fd, line, sizeof line - 1);
    close(fd);
    if (length <= 0)
        return false;
    line[length] = 0;
    // the name may hold spaces and parentheses: the last one closes it
    char *open_parenthesis = strchr(line, '(');
    char *close_parenthesis = strrchr(line, ')');
    if (!open_parenthesis || !close_parenthesis || close_parenthesis < open_parenthesis || !close_parenthesis[1])
        return false;
    out->pid = (uint32_t)number(line);
    *close_parenthesis = 0;
    snprintf(out->name, sizeof out->name, "%s", open_parenthesis + 1);
    const char *field = close_parenthesis + 2;
    out->state = *field;
    for (int i = 3; i < 22; i++) {
        field = strchr(field, ' ');
        if (!field)
            return false;
        field++;
        if (i + 1 == 20)
            out->threads = number(field);
        else if (i + 1 == 22)
            out->start = number(field);
    }
    return true;
}

uint64_t process_self(void)
{
    struct stat_line line;
    // the PID as this /proc counts it, which is what the others will look up
    if (read_stat("/proc/self/stat", &line))
        return (uint64_t)line.pid << 32 | (uint32_t)line.start;
    return (uint64_t)(uint32_t)getpid() << 32;
}

bool process_alive(uint64_t owner)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/stat", process_pid(owner));
    struct stat_line line;
    if (read_stat(path, &line)) {
        if ((uint32_t)line.start != (uint32_t)owner)
            return false;
        bool ended = line.state == 'Z' || line.state == 'X' || line.state == 'x';
        return !ended || line.threads > 1;
    }
    // no /proc, or one that hides others: existence is all that can be asked
    return kill((pid_t)process_pid(owner), 0) == 0 || errno != ESRCH;
}

void process_name(char name[16])
{
    struct stat_line line;
    memset(name, 0, 16);
    if (read_stat("/proc/self/stat", &line))
        snprintf(name, 16, "%s", line.name);
}
