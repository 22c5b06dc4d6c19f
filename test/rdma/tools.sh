#!/bin/sh
# What the guest runs: verbs' and UCX's own tools between the two devices, with the packets that
# each device sent counted before and after. Nothing of slabyard: it shows that the guest is one
# in which a transfer over verbs can be told from one that took another way.
MTU=1024
bad=0
say() { echo "test: $*"; }

sent() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts" 2>/dev/null || echo 0; }

# moves NAME BYTES FROM SERVER... -- CLIENT...: the client's device must have sent at least so many
# bytes over MTU packets, or received as many.
moves() {
	name=$1 bytes=$2 from=$3
	shift 3
	server=
	while [ "$1" != -- ]; do
		server="$server $1"
		shift
	done
	shift
	before=$(sent "$from")
	UCX_NET_DEVICES=rxe1:1 $server >/tmp/server.log 2>&1 &
	pid=$!
	for try in 1 2 3 4 5 6 7 8 9 10 11 12; do
		netstat -ltn | grep -q ':1851[0-9] \|:13337 ' && break
		usleep 500000
	done
	UCX_NET_DEVICES=rxe0:1 timeout 100 "$@" >/tmp/client.log 2>&1
	status=$?
	kill $pid 2>/dev/null
	wait $pid 2>/dev/null
	packets=$(($(sent "$from") - before))
	least=$((bytes / MTU))
	if [ $status -eq 0 ] && [ $packets -ge $least ]; then
		say "ok      $name: $packets packets of $from, at least $least"
	else
		say "FAILED  $name: status $status, $packets packets of $from, at least $least"
		tail -n 5 /tmp/client.log | sed 's/^/test:   client: /'
		tail -n 5 /tmp/server.log | sed 's/^/test:   server: /'
		bad=1
	fi
}

ibv_devices | grep -q rxe0 || say "no rxe0 here"
size=65536
moves "verbs write" $((size * 20)) rxe0 ib_write_bw -d rxe1 -x 0 -p 18515 -F -s $size -n 20 -- \
	ib_write_bw -d rxe0 -x 0 -p 18515 -F -s $size -n 20 10.77.0.2
moves "verbs read" $((size * 20)) rxe1 ib_read_bw -d rxe1 -x 0 -p 18516 -F -s $size -n 20 -- \
	ib_read_bw -d rxe0 -x 0 -p 18516 -F -s $size -n 20 10.77.0.2
moves "ucx put" $((size * 20)) rxe0 ucx_perftest -p 13337 -- \
	ucx_perftest -p 13337 -t ucp_put_bw -s $size -n 20 -w 0 10.77.0.2
moves "ucx get" $((size * 20)) rxe1 ucx_perftest -p 13337 -- \
	ucx_perftest -p 13337 -t ucp_get -s $size -n 20 -w 0 10.77.0.2
exit $bad
