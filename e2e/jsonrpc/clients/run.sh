#!/usr/bin/env bash
# Installs the clients of JSON-RPC that are written in JavaScript and Python, once a
# version, and runs all of them and those in Go against a server. It prints how many
# cases of each client pass. Arguments are for "go test".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

../../../.ci/install node:nodejs npm:npm python3:python3 pip3:python3-pip

# The versions' sum names the folder, so a change of them installs anew.
sum=$(cat js/package.json python/requirements.txt | sha256sum | cut -c1-12)
to="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/jsonrpc-clients-$sum"
if [[ ! -e $to/complete ]]; then
	rm -rf "$to"
	mkdir -p "$to/js"
	cp js/package.json "$to/js"
	npm install --prefix "$to/js" --no-package-lock --no-audit --no-fund --ignore-scripts --silent
	pip3 install --quiet --disable-pip-version-check --target "$to/python/lib" -r python/requirements.txt
	touch "$to/complete"
fi
cp js/clients.mjs "$to/js"
cp python/clients.py "$to/python"

JSONRPC_CLIENTS=$to GOWORK=off go test -v -count=1 -timeout 10m "$@" . | grep -vE '^=== '
