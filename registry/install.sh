#!/usr/bin/env bash
# Installs the servers that the registries' tests start, where they are missing.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"

# Debian's zookeeper is a jar and starts nothing; mDNS is tested in network
# namespaces; the tests start knotd and unbound on ports of their own.
../.ci/install /usr/bin/etcd:etcd-server \
	/usr/share/java/zookeeper.jar:zookeeper /usr/bin/java:default-jre-headless \
	/usr/bin/redis-server:redis-server \
	/usr/sbin/knotd:knot /usr/sbin/unbound:unbound \
	/usr/sbin/ip:iproute2 /usr/bin/nsenter:util-linux

# Consul is built from its module, once a machine.
consul/install.sh

# Dubbo's own registry meets ours in ZooKeeper.
zookeeper/testdata/dubbo/build.sh
