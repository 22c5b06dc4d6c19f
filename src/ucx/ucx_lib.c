#include "ucx_lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include "fail.h"

enum { COMPLAINT_BYTES = 160, SIGNALS = 64 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct sy_ucx_lib lib;
static char fault[SY_ERROR_MESSAGE_BYTES]; /* "": it is loaded */
static _Thread_local char complaint[COMPLAINT_BYTES];

/* UCX writes to stdout, which is the program's. Who wants its log names a place for it. */
static ucs_log_func_rc_t take_log(const char *file, unsigned line, const char *function,
                                  ucs_log_level_t level,
                                  const ucs_log_component_config_t *component,
                                  const char *message, va_list args)
{
	(void)file;
	(void)line;
	(void)function;
	(void)component;
	if (level <= UCS_LOG_LEVEL_ERROR) {
		va_list copy;
		va_copy(copy, args);
		(void)vsnprintf(complaint, sizeof complaint, message, copy);
		va_end(copy);
		complaint[strcspn(complaint, "\n")] = '\0';
	}
	if (level == UCS_LOG_LEVEL_FATAL) /* it ends the process */
		dprintf(STDERR_FILENO, "slabyard: UCX: %s\n", complaint);
	return getenv("UCX_LOG_FILE") != NULL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

static void *load_quietly(void)
{
	struct sigaction handlers[SIGNALS + 1];
	bool known[SIGNALS + 1];

	for (int i = 1; i <= SIGNALS; i++)
		known[i] = sigaction(i, NULL, &handlers[i]) == 0;
	void *handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
	for (int i = 1; i <= SIGNALS; i++) {
		if (known[i])
			(void)sigaction(i, &handlers[i], NULL);
	}
	return handle;
}

static void load(void)
{
	void *handle = load_quietly();

	if (handle == NULL) {
		const char *why = dlerror();
		sy_format(fault, sizeof fault, "cannot load libucp (%.100s): install libucx0",
		          why != NULL ? why : "no reason given");
		return;
	}
	__typeof__(ucs_log_push_handler) *push = NULL;
	*(void **)&push = dlsym(handle, "ucs_log_push_handler");
	bool whole = push != NULL;
#define FIND(name) \
	*(void **)&lib.name = dlsym(handle, #name); \
	whole = whole && lib.name != NULL;
	SY_UCX_FUNCTIONS(FIND)
#undef FIND
	if (whole)
		push(take_log);
	else
		sy_format(fault, sizeof fault, "this libucp lacks functions: 1.13 or later is needed");
}

sy_status sy_ucx_lib_get(const struct sy_ucx_lib **ret_lib, sy_error *err)
{
	pthread_once(&once, load);
	if (fault[0] != '\0')
		return sy_fail(err, SY_E_SYS, __func__, "%s", fault);
	*ret_lib = &lib;
	return SY_OK;
}

const char *sy_ucx_lib_complaint(void)
{
	return complaint;
}
