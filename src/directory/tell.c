#include "tell.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"

void sy_tell(const char *format, ...)
{
	char line[640];
	struct timespec now;
	struct tm utc;
	va_list args;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	size_t head = strftime(line, sizeof line, "%Y-%m-%d %H:%M:%SZ ", &utc);
	va_start(args, format);
	size_t length = head + sy_format_list(line + head, sizeof line - head - 1, format, args);
	va_end(args);
	if (length > sizeof line - 2)
		length = sizeof line - 2;
	line[length++] = '\n';
	ssize_t unused = write(STDERR_FILENO, line, length);
	(void)unused;
}
