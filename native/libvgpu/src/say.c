#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 512

static char kept[LINE_SIZE];

static void write_once(char line[LINE_SIZE])
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&said))
        return;
    int saved = errno;
    size_t length = strlen(line);
    line[length++] = '\n';
    // one write, so that lines of several processes don't mix
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
    errno = saved;
}

void say_once(const char *format, ...)
{
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    write_once(line);
}

void say_later(const char *format, ...)
{
    va_list arguments;
    if (kept[0])
        return;
    va_start(arguments, format);
    vsnprintf(kept, sizeof kept - 1, format, arguments);
    va_end(arguments);
}

void say_kept(void)
{
    char line[LINE_SIZE];
    memcpy(line, kept, sizeof line);
    if (line[0])
        write_once(line);
}
