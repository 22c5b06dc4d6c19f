#!/bin/busybox sh
# The guest's first process: makes the devices, runs /script.sh, and ends the virtual machine with
# its result. Words of the kernel's line: rxe=1 loads the driver, loss=1 loses packets.
bb=/bin/busybox
$bb mount -t proc none /proc
$bb mount -t sysfs none /sys
$bb mount -t devtmpfs none /dev
$bb mkdir -p /dev/shm /run /tmp /bb
$bb mount -t tmpfs none /dev/shm
$bb mount -t tmpfs none /tmp
$bb --install -s /bb
export PATH=/bin:/bb # busybox's shell takes its own ip and tc unless it is told a path
echo "guest: here, $(uname -r)"

has() { grep -q "\b$1\b" /proc/cmdline; }
ends_with() {
	sync
	# isa-debug-exit: the virtual machine's exit status is twice the byte and one.
	printf "$1" | dd of=/dev/port bs=1 seek=244 count=1 2>/dev/null
	echo "guest: the machine did not end"
	poweroff -f
}

ln -s kmod /bin/modprobe
modules="veth sch_netem crc32_generic ib_uverbs rdma_ucm"
has rxe=1 && modules="$modules rdma_rxe"
for module in $modules; do
	/bin/modprobe "$module" || echo "guest: no module $module"
done
/bin/ip link set lo up
/bin/ip link add veth0 type veth peer name veth1 || echo "guest: no veth"
/bin/ip address add 10.77.0.1/24 dev veth0
/bin/ip address add 10.77.0.2/24 dev veth1
/bin/ip link set veth0 up
/bin/ip link set veth1 up
# What one end sends to the other leaves by the cable, although both are of this machine.
for name in all default veth0 veth1; do
	echo 1 >/proc/sys/net/ipv4/conf/$name/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/$name/rp_filter
	echo 1 >/proc/sys/net/ipv4/conf/$name/arp_ignore
done
/bin/ip route add 10.77.0.2/32 dev veth0 src 10.77.0.1 table 100
/bin/ip route add 10.77.0.1/32 dev veth1 src 10.77.0.2 table 101
/bin/ip rule add pref 200 lookup local
/bin/ip rule add pref 100 iif lo to 10.77.0.2 lookup 100
/bin/ip rule add pref 101 iif lo to 10.77.0.1 lookup 101
/bin/ip rule del pref 0
if has loss=1; then
	for end in veth0 veth1; do
		/bin/tc qdisc add dev "$end" root netem loss 1% || echo "guest: no packet loss"
	done
fi
if has rxe=1; then
	/bin/rdma link add rxe0 type rxe netdev veth0 || echo "guest: no rxe0"
	/bin/rdma link add rxe1 type rxe netdev veth1 || echo "guest: no rxe1"
fi
[ -f /variables ] && . /variables
export UCX_TLS=${UCX_TLS:-rc_v,self} UCX_IB_GID_INDEX=0
export UCX_LOG_FILE=stderr UCX_WARN_UNUSED_ENV_VARS=n
if sh /script.sh; then
	ends_with '\020'
else
	ends_with '\021'
fi
