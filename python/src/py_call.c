/* What every call into the library needs: an error record, a deadline, an ear for signals. */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "py_core.h"

bool sypy_error_init(struct sypy_error *error, size_t index_capacity)
{
	*error = (struct sypy_error){0};
	error->err.indexes = PyMem_Calloc(index_capacity + 1, sizeof *error->err.indexes);
	error->err.index_capacity = index_capacity;
	if (error->err.indexes == NULL)
		PyErr_NoMemory();
	return error->err.indexes != NULL;
}

void sypy_error_done(struct sypy_error *error)
{
	PyMem_Free(error->err.indexes);
	*error = (struct sypy_error){0};
}

/* The thread that waits gave the GIL away; its state is found again, so what a handler raises
 * stands when the call returns. Only the main thread runs handlers. */
bool sypy_interrupted(void *context)
{
	PyGILState_STATE state = PyGILState_Ensure();
	bool raised = PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0;

	(void)context;
	PyGILState_Release(state);
	return raised;
}

int sypy_deadline(PyObject *seconds, void *ret_deadline_ns)
{
	uint64_t *deadline_ns = ret_deadline_ns;
	double value = seconds == Py_None ? 0 : PyFloat_AsDouble(seconds);

	if (value == -1.0 && PyErr_Occurred())
		return 0;
	if (isnan(value)) {
		PyErr_SetString(PyExc_ValueError, "a deadline is monotonic seconds or None, not nan");
		return 0;
	}
	/* 0 means the client's timeout, which caps what lies further away; the past is 1 ns. */
	if (seconds == Py_None || value > 1e9)
		*deadline_ns = 0;
	else if (value <= 0)
		*deadline_ns = 1;
	else
		*deadline_ns = (uint64_t)(value * 1e9);
	return 1;
}

int sypy_duration(PyObject *seconds, void *ret_ns)
{
	uint64_t *ns = ret_ns;
	double value = seconds == Py_None ? 0 : PyFloat_AsDouble(seconds);

	if (value == -1.0 && PyErr_Occurred())
		return 0;
	if (seconds != Py_None && !(value > 0)) {
		PyErr_SetString(PyExc_ValueError, "a timeout is seconds, more than 0");
		return 0;
	}
	*ns = value > 1e9 ? (uint64_t)1000000000u * 1000000000u : (uint64_t)(value * 1e9);
	if (seconds != Py_None && *ns == 0)
		*ns = 1;
	return 1;
}

static bool number_up_to(PyObject *object, uint64_t most, uint64_t *ret_value)
{
	PyObject *number = PyNumber_Index(object);
	uint64_t value = number == NULL ? 0 : PyLong_AsUnsignedLongLong(number);

	Py_XDECREF(number);
	bool overflown = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError);
	if (overflown)
		PyErr_Clear();
	if (overflown || value > most)
		PyErr_Format(PyExc_ValueError, "%R is not in 0 .. %llu", object, (unsigned long long)most);
	if (PyErr_Occurred())
		return false;
	*ret_value = value;
	return true;
}

int sypy_u64(PyObject *number, void *ret_u64)
{
	return number_up_to(number, UINT64_MAX, ret_u64);
}

int sypy_u32(PyObject *number, void *ret_u32)
{
	uint64_t value;

	if (!number_up_to(number, UINT32_MAX, &value))
		return 0;
	*(uint32_t *)ret_u32 = (uint32_t)value;
	return 1;
}

static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t LOOK_NS = 100000000u;
static const uint64_t TIMEOUT_S = 120; /* the library's own default */

void sypy_gate_init(struct sypy_gate *gate, uint64_t timeout_ns)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&gate->lock, NULL);
	pthread_cond_init(&gate->left, &monotonic);
	pthread_condattr_destroy(&monotonic);
	gate->timeout_ns = timeout_ns == 0 ? TIMEOUT_S * SECOND_NS : timeout_ns;
	gate->pid = getpid();
	gate->made = true;
}

void sypy_gate_done(struct sypy_gate *gate)
{
	if (!gate->made)
		return;
	pthread_cond_destroy(&gate->left);
	pthread_mutex_destroy(&gate->lock);
	gate->made = false;
}

bool sypy_gate_enter(struct sypy_gate *gate, const char *what)
{
	/* In a fork child nobody may be left to give the lock up. */
	bool mine = gate->pid == getpid(), open = false;

	if (mine) {
		pthread_mutex_lock(&gate->lock);
		open = !gate->closing;
		gate->running += open;
		pthread_mutex_unlock(&gate->lock);
	}
	if (!open) {
		sy_error err = {.status = SY_E_FATAL};

		PyOS_snprintf(err.message, sizeof err.message,
		              mine ? "the %s is closed"
		                   : "the %s was opened before a fork; open one in the child", what);
		sypy_raise(&err, NULL);
	}
	return open;
}

bool sypy_gate_leave(struct sypy_gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	bool last = --gate->running == 0 && gate->closing;
	if (last)
		pthread_cond_broadcast(&gate->left);
	/* Closing may take longer than the call's own deadline, so it is left to who waits for it. */
	last = last && gate->closers == 0;
	pthread_mutex_unlock(&gate->lock);
	return last;
}

/* Waits a tenth of a second, or until the last one left. True: nobody is inside. */
static bool wait_a_turn(struct sypy_gate *gate)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	uint64_t nsec = (uint64_t)end.tv_nsec + LOOK_NS;
	end.tv_sec += (time_t)(nsec / SECOND_NS);
	end.tv_nsec = (long)(nsec % SECOND_NS);
	pthread_mutex_lock(&gate->lock);
	if (gate->running > 0)
		pthread_cond_timedwait(&gate->left, &gate->lock, &end);
	bool empty = gate->running == 0;
	pthread_mutex_unlock(&gate->lock);
	return empty;
}

bool sypy_gate_shut(struct sypy_gate *gate)
{
	uint64_t turns = gate->timeout_ns / LOOK_NS + 1;

	if (gate->pid != getpid())
		return true;
	pthread_mutex_lock(&gate->lock);
	bool empty = gate->running == 0, interrupted = false;
	gate->closing = true;
	gate->closers++;
	pthread_mutex_unlock(&gate->lock);
	for (uint64_t i = 0; !empty && !interrupted && i < turns; i++) {
		Py_BEGIN_ALLOW_THREADS
		empty = wait_a_turn(gate);
		Py_END_ALLOW_THREADS
		interrupted = !empty && PyErr_CheckSignals() != 0;
	}
	pthread_mutex_lock(&gate->lock);
	gate->closers--;
	empty = gate->running == 0; /* else the last to leave closes */
	pthread_mutex_unlock(&gate->lock);
	return empty;
}
