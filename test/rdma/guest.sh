#!/bin/sh
# What the guest runs: slabyard's own processes with verbs between them. Units listen on one
# device, clients use the other; nothing is small enough to travel with a message. $SUITES and
# $WHOLE_SUITES are programs of test/integration that run the same way (NAME, or NAME:TEST for one
# of its tests). What was put and got must have left each device in at least as many packets as it
# takes. Where packets are lost all but $WHOLE_SUITES runs, too, only slower: a message that makes
# a connection is sent again by the kernel after 4 s.
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

judge() { # name, status, bytes put, bytes got
	set -- "$1" "$2" $(($3 / MTU + 1)) $(($4 / MTU + 1)) $before $(ports)
	puts=$(($7 - $5)) gets=$(($8 - $6))
	if [ "$2" -eq 0 ] && [ $puts -ge "$3" ] && [ $gets -ge "$4" ]; then
		say "ok      $1: rxe0 sent $puts packets, at least $3; rxe1 $gets, at least $4"
	else
		say "FAILED  $1: status $2, rxe0 sent $puts packets, of $3; rxe1 $gets, of $4"
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
	judge "$mib MiB there and back" $? $((mib * 1024 * 1024)) $((mib * 1024 * 1024))
	tell
	put=$(count ucx_put_bytes) got=$(count ucx_get_bytes) before=$(ports)
	slabyard demo --run-dir /tmp/yard --rows 64 --steps 1 --producers 1 --trainers 1 >/tmp/log 2>&1
	status=$?
	tell
	judge "demo" $status $(($(count ucx_put_bytes) - put)) $(($(count ucx_get_bytes) - got))
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
export SLABYARD_TEST_UNIT_DEVICES=rxe1:1 UCX_NET_DEVICES=rxe0:1 SLABYARD_TEST_NO_EAGER=1
# Where packets are lost a transfer of megabytes takes longer than these wait for one.
grep -q 'loss=1' /proc/cmdline && WHOLE_SUITES=
for suite in ${SUITES:-} ${WHOLE_SUITES:-}; do
	before=$(ports)
	"${suite%:*}" $(echo "$suite" | sed -n 's/.*://p') >/tmp/log 2>&1
	status=$?
	# What it moved, by the last such line: "over ucx 12345 put of 1234, 6789 got of 678". What
	# units count as got is what they were asked for, and some of that is never read.
	moved=$(sed -n 's/.* put of \([0-9]*\), .* got of \([0-9]*\).*/\1 \2/p' /tmp/log | tail -n 1)
	judge "$suite" $status ${moved:-0 0}
done
exit $bad
