/* A client of the cluster that a subcommand works on. */
#ifndef SY_CLUSTER_CLIENT_H
#define SY_CLUSTER_CLIENT_H

#include <slabyard/client.h>

#include "cli.h"

/* SY_EXIT_DONE, or SY_EXIT_FAILED after telling that no cluster runs in the run directory, which
 * is named. */
int sy_cluster_is_running(const struct sy_cli *cli);

/* Where the cluster is and by what way its values travel, as the command line says, for a client
 * of one's own. SY_EXIT_DONE, or the exit status after telling what is wrong. */
int sy_cluster_options(const struct sy_cli *cli, sy_client_options *ret_options);

/* Opens it; the caller closes it. SY_EXIT_DONE, or the exit status after telling why: no run
 * directory was named, no cluster runs there, it does not answer. */
int sy_cluster_client_open(const struct sy_cli *cli, sy_client **ret_client);

/* The words GIDX and FIELD as a key, which points to them. SY_E_INVALID. */
sy_status sy_cluster_key_parse(const char *const words[2], sy_key *ret_key, sy_error *err);

/* Tells why a call on the cluster failed and, where there is something, what to do.
 * SY_EXIT_FAILED. */
int sy_cluster_client_fail(const struct sy_cli *cli, const sy_error *err);

/* " (make room ...)" where the failure calls for something; else "". */
const char *sy_cluster_advice(const sy_error *err);

#endif
