/* Who may connect to a control server that has keys: the answers to ZeroMQ's questions (ZAP). */
#ifndef SY_CONTROL_ZAP_H
#define SY_CONTROL_ZAP_H

#include <slabyard/status.h>

struct sy_control_zap;

/* Answers, in a thread of its own, all questions of the context: who proved to have the secret of
 * this public key is let in, nobody else. Before any endpoint is bound. SY_E_SYS. */
sy_status sy_control_zap_start(void *context, const char *client_public,
                               struct sy_control_zap **ret_zap, sy_error *err);
/* Waits for the thread's end; zmq_ctx_shutdown on the context calls for it. NULL is a no-op. */
void sy_control_zap_join(struct sy_control_zap *zap);

#endif
