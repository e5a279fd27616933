#!/usr/bin/env bash
# Installs etcd, and builds the kube-apiserver that the tests of Kubernetes start, once a
# machine: 10 to 20 minutes on two cores. No downloadable binary is used, only Go modules.
#
# KUBE_APISERVER names another binary, and nothing is built then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

version=v1.36.3
dir="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/kube-apiserver-${version#v}"
binary="$dir/kube-apiserver"

../../.ci/install /usr/bin/etcd:etcd-server /usr/bin/unshare:util-linux /usr/sbin/ip:iproute2

if [[ -n ${KUBE_APISERVER:-} ]]; then
	echo "kubernetes: using $KUBE_APISERVER"
	exit 0
fi
if [[ -x $binary ]]; then
	echo "kubernetes: $binary is there"
	exit 0
fi

echo "kubernetes: building kube-apiserver $version once, 10 to 20 minutes on two cores, into $binary"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"

# A module of its own: k8s.io/kubernetes replaces its staging modules by directories, so each
# of them is named here with the version that belongs to it.
export GOWORK=off GOFLAGS=-mod=mod
go mod init tandem-kubernetes-build 2>/dev/null
go mod edit -require "k8s.io/kubernetes@$version"
source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
for module in $(sed -n 's|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' "$source"); do
	go mod edit -replace "$module=$module@v0.${version#v1.}"
done
CGO_ENABLED=0 nice -n 19 go build -trimpath -ldflags '-s -w' -o kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver

# The binary appears in one step, so a build that was killed leaves none.
mkdir -p "$dir"
mv kube-apiserver "$binary.$$"
mv "$binary.$$" "$binary"
echo "kubernetes: built in $SECONDS s"
