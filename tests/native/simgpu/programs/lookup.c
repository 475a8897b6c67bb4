// Reads lines "name version flags" and says what cuGetProcAddress gives: "result status symbol".
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    char name[128];
    int version;
    unsigned long long flags;
    while (scanf("%127s %d %llu", name, &version, &flags) == 3) {
        void *function = (void *)1;
        CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)-1;
        CUresult result = cuGetProcAddress_v2(name, &function, version, flags, &status);
        Dl_info info = {0};
        const char *symbol = "-";
        if (result == CUDA_SUCCESS && function && dladdr(function, &info) && info.dli_sname) {
            symbol = info.dli_sname;
            if (dlsym(RTLD_DEFAULT, symbol) != function)
                symbol = "not-the-exported-one";
        }
        printf("%d %d %s\n", (int)result, (int)status, symbol);
    }
    return 0;
}
