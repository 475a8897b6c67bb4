// The one line that a person may see on stderr.  Nothing is ever written to stdout.
#ifndef SAY_H
#define SAY_H

// Write one line, the first time only in this process.
void say_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Keep a line for the moment when something is really refused: programs that use no card hear nothing.  The first one counts.
void say_later(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_kept(void);

#endif
