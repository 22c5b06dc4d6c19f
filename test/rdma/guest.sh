#!/bin/sh
# What the guest runs: slabyard's own processes with verbs between them. Units listen on one
# device, clients use the other; nothing is small enough to travel with a message. $SUITES are
# programs of test/integration that run the same way. Where packets are lost all of it runs, too,
# only slower: a message that makes a connection is sent again by the kernel after 4 s.
MTU=1024
bad=0
say() { echo "test: $*"; }
sent() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts" 2>/dev/null || echo 0; }
ports() { echo "$(sent rxe0) $(sent rxe1)"; }
# The numbers of all units. The guest may stand still for longer than status waits.
tell() {
	for try in 1 2 3 4 5 6 7 8; do
		slabyard status --json >/tmp/numbers && return
	done
}
# The sum of one of them.
count() {
	tr ",{}" "\n\n\n" </tmp/numbers | grep "\"$1\"" | tr -dc "0-9\n" |
		awk "{s += \$1} END {print s + 0}"
}

judge() { # name, status, packets at least from each device
	set -- "$1" "$2" "$3" $before $(ports)
	puts=$(($6 - $4)) gets=$(($7 - $5))
	if [ "$2" -eq 0 ] && [ $puts -ge "$3" ] && [ $gets -ge "$3" ]; then
		say "ok      $1: rxe0 sent $puts packets, rxe1 $gets; at least $3"
	else
		say "FAILED  $1: status $2, rxe0 sent $puts packets, rxe1 $gets; at least $3"
		grep -E 'ERROR|LINE' /tmp/log | head -n 6 | sed 's/^/test:   /'
		tail -n 6 /tmp/log | sed 's/^/test:   /'
		bad=1
	fi
}

export SLABYARD_RUN_DIR=/tmp/yard SLABYARD_TRANSPORT=ucx SLABYARD_POLICY=rdma
export UCX_RC_VERBS_TIMEOUT=50ms UCX_RC_VERBS_RETRY_COUNT=${RETRIES:-7}

# One value there and back, with every byte compared.
mib=4
if UCX_NET_DEVICES=rxe1:1 slabyard up --units 2 --slab-bytes 24MiB --policy rdma --insecure \
	--listen 'tcp://10.77.0.2:*' --eager-max-bytes 0 --detach >/tmp/log 2>&1; then
	export UCX_NET_DEVICES=rxe0:1
	dd if=/dev/urandom of=/tmp/value bs=1M count=$mib 2>/dev/null
	before=$(ports)
	slabyard put 1 note /tmp/value >/tmp/log 2>&1 && slabyard get 1 note >/tmp/back 2>>/tmp/log &&
		cmp /tmp/value /tmp/back >>/tmp/log 2>&1
	judge "$mib MiB there and back" $? $((mib * 1024 * 1024 / MTU))
	before=$(ports)
	slabyard demo --run-dir /tmp/yard --rows 64 --steps 1 --producers 1 --trainers 1 >/tmp/log 2>&1
	judge "demo" $? 1
	tell
	shm=$(($(count shm_put_bytes) + $(count shm_get_bytes))) ucx=$(count ucx_put_bytes)
	if [ "$shm" -eq 0 ] && [ "$ucx" -ge $((mib * 1024 * 1024)) ]; then
		say "ok      the units counted 0 bytes over shm, $ucx put over ucx"
	else
		say "FAILED  the units counted $shm bytes over shm, $ucx put over ucx"
		bad=1
	fi
	slabyard down >/dev/null 2>&1
else
	say "FAILED  the units do not start"
	tail -n 5 /tmp/log | sed 's/^/test:   /'
	bad=1
fi

export SLABYARD_TEST_UNIT_POLICY=rdma SLABYARD_TEST_UNIT_LISTEN='tcp://10.77.0.2:*'
export SLABYARD_TEST_UNIT_DEVICES=rxe1:1 UCX_NET_DEVICES=rxe0:1
for suite in ${SUITES:-}; do
	before=$(ports)
	"$suite" >/tmp/log 2>&1
	judge "$suite" $? 1
done
exit $bad
