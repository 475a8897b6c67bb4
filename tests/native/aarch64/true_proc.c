// Preloaded under qemu-user, which invents /proc/self/stat: a process would not be found by the start time that it reads of
// itself.  By another spelling of the path it reads the kernel's own file, as on a real machine.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    int mode = va_arg(list, int);
    va_end(list);
    if (strcmp(path, "/proc/self/stat") == 0)
        path = "/proc/./self/stat";
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
