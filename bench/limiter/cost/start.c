// What it takes to start: processes that open the card (cuInit and the primary context) and end.
//
// Reads lines from stdin: "init" (cuInit only), "one" (with a context), or "many" (64 at once), and answers each with
// "NAME NS": from the first fork to the end of the last.
#include <cuda.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY 64

extern char **environ;

static int be_child(const char *what)
{
    CUcontext context;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS && strcmp(what, "init") != 0)
        result = cuDevicePrimaryCtxRetain(&context, 0);
    return (int)result & 0xff;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void time_children(char *self, char *what, int count)
{
    double start = now();
    for (int i = 0; i < count; i++) {
        pid_t pid;
        if (posix_spawn(&pid, self, NULL, NULL, (char *[]){self, what, NULL}, environ)) {
            printf("error %s can't be started\n", self);
            exit(1);
        }
    }
    int failed = 0, code = 0, status;
    while (wait(&status) > 0)
        if (status != 0) {
            failed++;
            code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        }
    double end = now();
    if (failed)
        printf("error %d of %d processes ended with %d\n", failed, count, code);
    else
        printf("%s %.0f\n", what, end - start);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return be_child(argv[1]);
    char line[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        time_children(argv[0], line, strcmp(line, "many") == 0 ? MANY : 1);
    }
    return 0;
}
