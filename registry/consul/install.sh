#!/usr/bin/env bash
# Builds the Consul agent that the integration tests run against, once a
# machine: about seven minutes on two cores. No distribution's package and no
# downloadable binary is used, only the Go module, at the last version under
# the Mozilla Public License whose checksums are all published.
#
# CONSUL names another binary of a Consul agent, and nothing is built then.
set -euo pipefail

version=v1.13.9
dir="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/consul-${version#v}"
binary="$dir/consul"

if [[ -n ${CONSUL:-} ]]; then
	echo "consul: using $CONSUL"
	exit 0
fi
if [[ -x $binary ]]; then
	echo "consul: $binary is there"
	exit 0
fi

echo "consul: building the agent $version once, about seven minutes on two cores, into $binary"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"

# A module of its own, because the agent's go.mod has replace directives: "go
# install" refuses those, and they must be repeated here. The go command
# downloads what it misses, so -mod=mod.
export GOWORK=off GOFLAGS=-mod=mod
go mod init tandem-consul-build 2>/dev/null
go mod edit \
	-require "github.com/hashicorp/consul@$version" \
	-replace launchpad.net/gocheck=github.com/go-check/check@v0.0.0-20140225173054-eb6ee6f84d0a
cat >tools.go <<'GO'
package tools

import _ "github.com/hashicorp/consul/agent"
GO
CGO_ENABLED=0 go build -o consul github.com/hashicorp/consul

# The binary appears in one step, so a build that was killed leaves none.
mkdir -p "$dir"
mv consul "$binary.$$"
mv "$binary.$$" "$binary"
echo "consul: built in $SECONDS s"
