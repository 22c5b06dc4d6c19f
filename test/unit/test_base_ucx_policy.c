#include "harness.h"

#include <string.h>

#include "ucx_policy.h"

static void test_the_table(void **state)
{
	(void)state;
	static const struct {
		const char *tls, *net_devices, *fault; /* fault NULL: allowed */
	} cases[] = {
		{"rc", NULL, NULL},
		{"rc,sm,self", NULL, NULL},
		{"rc_verbs,ud_mlx5,self", "all", NULL},
		{"dc_x", NULL, NULL},
		{"ib", NULL, NULL},
		{"self,sm,ud", "mlx5_0:1", NULL},
		{"rc", "mlx5_0:1,mlx5_1:12", NULL},
		{"^tcp", NULL, NULL},
		{"^sm,tcp", NULL, NULL},
		{NULL, NULL, "UCX_TLS is not set"},
		{"", NULL, "UCX_TLS is not set"},
		{"all", NULL, "UCX_TLS=all allows all"},
		{"rc,all", NULL, "UCX_TLS=rc,all allows all"},
		{"tcp", NULL, "UCX_TLS=tcp allows TCP"},
		{"rc,tcp", NULL, "UCX_TLS=rc,tcp allows TCP"},
		{"rc,tcp_x", NULL, "UCX_TLS=rc,tcp_x allows TCP"},
		{"sm,self", NULL, "UCX_TLS=sm,self names no RDMA transport"},
		{"src", NULL, "UCX_TLS=src names no RDMA transport"},
		{",", NULL, "UCX_TLS=, names no RDMA transport"},
		{"^sm", NULL, "UCX_TLS=^sm does not exclude tcp"},
		{"^", NULL, "UCX_TLS=^ does not exclude tcp"},
		{"rc", "eth0", "UCX_NET_DEVICES=eth0 names something else"},
		{"rc", "mlx5_0", "UCX_NET_DEVICES=mlx5_0 names something else"},
		{"rc", "mlx5_0:1,eth0", "UCX_NET_DEVICES=mlx5_0:1,eth0 names something else"},
		{"rc", "mlx5_0:", "names something else"},
		{"rc", ":1", "names something else"},
		{"rc", "mlx5_0:x", "names something else"},
		{"rc", "", "names something else"},
		{"tcp", "mlx5_0:1", "UCX_TLS=tcp allows TCP"},
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		sy_error err = {0};
		sy_status status = sy_ucx_policy_check(cases[i].tls, cases[i].net_devices, &err);
		sy_status want = cases[i].fault == NULL ? SY_OK : SY_E_POLICY;
		if (status != want)
			fail_msg("case %zu: %d: %s", i, (int)status, err.message);
		assert_int_equal(sy_ucx_policy_check(cases[i].tls, cases[i].net_devices, NULL), want);
		if (cases[i].fault == NULL)
			continue;
		if (strstr(err.message, cases[i].fault) == NULL)
			fail_msg("case %zu: %s", i, err.message);
		assert_non_null(strstr(err.message, ": export UCX_"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
