// Many processes that begin at once and stay: each initialises CUDA and takes 2 MiB, for which no context is needed.
//   crowd PROCESSES      prints how many could and how many couldn't begin; lets them go when stdin ends
#include <cuda.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char begin(void)
{
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUresult result = cuInit(0);
    if (result == CUDA_SUCCESS)
        result = cuMemCreate(&handle, 2 << 20, &prop, 0);
    return result == CUDA_SUCCESS ? 'y' : result == CUDA_ERROR_NOT_PERMITTED ? 'n' : '?';
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int count = atoi(argv[1]), answers[2], leave[2], started = 0, refused = 0;
    CHECK(pipe(answers) == 0 && pipe(leave) == 0);
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            close(leave[1]);
            char answer = begin(), nothing;
            CHECK(write(answers[1], &answer, 1) == 1);
            _exit(read(leave[0], &nothing, 1) != 0);
        }
    }
    for (int i = 0; i < count; i++) {
        char answer;
        CHECK(read(answers[0], &answer, 1) == 1 && answer != '?');
        started += answer == 'y';
        refused += answer == 'n';
    }
    printf("%d %d\n", started, refused);
    fflush(stdout);
    char line;
    CHECK(read(STDIN_FILENO, &line, 1) == 0);
    close(leave[1]);
    while (wait(NULL) > 0)
        ;
    return 0;
}
