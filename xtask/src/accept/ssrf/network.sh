# Makes two networks and runs a program in the first one: sh network.sh HOSTS FOLDER ADDRESSES PROGRAM..
#
# The agent runs in the first network, with the addresses 81.2.69.142 and 2a02:7b40::2. All other
# addresses belong to the second network, except the addresses of the loopback interface. HOSTS
# serves at every address of the two networks, and records the connections in FOLDER/near and
# FOLDER/far. The file FOLDER/reachable lists the addresses among ADDRESSES that a program in the
# first network can reach.
set -eu
hosts=$1 folder=$2 addresses=$3
shift 3
exec 2>"$folder/stderr"

for name in resolv.conf nsswitch.conf hosts; do
    if [ -e "/etc/$name" ]; then mount --bind "$folder/$name" "/etc/$name"; fi
done
ip link set lo up
"$hosts" serve "$folder/near" &
near=$!
unshare --net sh -c '
    set -eu
    ip link set lo up
    "$1" serve "$2/far" &
    until ip link show outer >/dev/null 2>&1; do sleep 0.02; done
    ip addr add 81.2.69.141/30 dev outer
    ip -6 addr add 2a02:7b40::1/64 dev outer nodad
    ip link set outer up
    ip route add local 0.0.0.0/0 dev lo table main
    ip -6 route add local ::/0 dev lo table main
    until [ -e "$2/far.ready" ]; do sleep 0.02; done
    : >"$2/far.up"
    wait
' sh "$hosts" "$folder" &
far=$!
until [ -e "$folder/near.ready" ]; do kill -0 "$near"; sleep 0.02; done
# When this file exists, the second network exists.
until [ -e "$folder/far.ready" ]; do kill -0 "$far"; sleep 0.02; done
ip link add name inner type veth peer name outer netns "$far"
ip addr add 81.2.69.142/30 dev inner
ip -6 addr add 2a02:7b40::2/64 dev inner nodad
ip link set inner up
until [ -e "$folder/far.up" ]; do kill -0 "$far"; sleep 0.02; done
ip route add default via 81.2.69.141
ip -6 route add default via 2a02:7b40::1
ip route add unreachable 93.184.216.99

"$hosts" probe $addresses >"$folder/reachable"
: >"$folder/near"
: >"$folder/far"
"$@"
# If these connections are answered, all earlier connections are recorded.
"$hosts" probe 127.0.0.1 93.184.216.34 >"$folder/probed"
