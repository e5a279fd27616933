#!/usr/bin/env bash
# Installs the servers that the registries' tests start, where they are missing.
set -euo pipefail

# install_missing takes file:package pairs.
install_missing() {
	local pair missing=()
	for pair in "$@"; do
		[[ -e "${pair%%:*}" ]] || missing+=("${pair#*:}")
	done
	((${#missing[@]} == 0)) && return
	if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
		echo "please install: ${missing[*]}" >&2
		exit 1
	fi
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${missing[@]}"
}

# Debian's zookeeper is a jar and starts nothing; mDNS is tested in network
# namespaces.
install_missing /usr/bin/etcd:etcd-server \
	/usr/share/java/zookeeper.jar:zookeeper /usr/bin/java:default-jre-headless \
	/usr/bin/redis-server:redis-server \
	/usr/sbin/ip:iproute2 /usr/bin/nsenter:util-linux

# Consul is built from its module, once a machine.
"$(dirname "${BASH_SOURCE[0]}")/consul/install.sh"

# Dubbo's own registry meets ours in ZooKeeper.
"$(dirname "${BASH_SOURCE[0]}")/zookeeper/testdata/dubbo/build.sh"
