/* Which transport is taken and what UCX may use: their names, and whether UCX may move bytes out
 * of this host over TCP, told by its environment alone. */
#ifndef SY_UCX_POLICY_H
#define SY_UCX_POLICY_H

#include <slabyard/client.h>

/* The values of UCX_TLS and UCX_NET_DEVICES; NULL: unset. SY_OK: bytes leave this host over RDMA
 * or not at all, that is: UCX_TLS is a list with an RDMA transport (rc, dc, ud, ib and what
 * begins so), without tcp and all; or a list of exclusions (^) that names tcp; and
 * UCX_NET_DEVICES, if it is set and not "all", names devices with a port, as in mlx5_0:1.
 * SY_E_POLICY: the message names the variable, its value and the line to set. */
sy_status sy_ucx_policy_check(const char *tls, const char *net_devices, sy_error *err);

/* "auto", "shm", "ucx"; "same-host", "rdma", "allow-tcp". SY_E_INVALID: none of them; `what` is
 * the option or variable that says so. */
sy_status sy_path_from_name(const char *what, const char *name, sy_path *ret_path, sy_error *err);
sy_status sy_policy_from_name(const char *what, const char *name, sy_policy *ret_policy,
                              sy_error *err);

#endif
