// Waits, reaps whatever is left to it, and ends on SIGTERM or SIGINT: PID 1 of each pod, and of the namespaces that a
// test cluster's nodes are made of.

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

int main(void)
{
    sigset_t signals;
    sigfillset(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    for (;;) {
        int signal = 0;
        sigwait(&signals, &signal);
        if (signal == SIGTERM || signal == SIGINT)
            return 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}
