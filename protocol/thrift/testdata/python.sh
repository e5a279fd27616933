#!/usr/bin/env bash
# Installs thriftpy2, once a version, and has its client call a server. Arguments are
# for "go test".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

thriftpy2=0.7.1
../../.ci/install python3:python3 pip3:python3-pip

to="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/thriftpy2-$thriftpy2"
if [[ ! -e $to/complete ]]; then
	rm -rf "$to"
	pip3 install --quiet --disable-pip-version-check --root-user-action ignore --target "$to" "thriftpy2==$thriftpy2"
	touch "$to/complete"
fi
THRIFTPY2=$to go test -tags integration -race -run '^TestPython$' -count=1 -v "$@" .
