/* What a supervisor or a directory tells people. */
#ifndef SY_TELL_H
#define SY_TELL_H

/* A line on stderr with its time (of the wall: it is for people), in one write. */
void sy_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
