#!/usr/bin/env bash
# Builds the site of docs/ into OUT, with npm's packages in WORK, outside docs/, where neither Go nor
# the checks of the repository meet them.
set -euo pipefail
(($# == 2)) || { echo "usage: build.sh WORK OUT" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1" "$2"
work=$(cd "$1" && pwd) out=$(cd "$2" && pwd)
command -v npm >/dev/null || "$root/.ci/install" node:nodejs npm:npm
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' || { echo "the site needs Node.js 18 or later, not $(node --version)" >&2; exit 1; }

rm -rf "$work/pages" "$work/.vitepress"
cp -R "$root/docs" "$work/pages"
rm -rf "$work/pages/site"
cp -R "$root/docs/site/." "$work"
cd "$work"
# The lock file names versions and checksums, and no addresses: they come from npm's registry setting.
! grep -q '"resolved"' package-lock.json || { echo "package-lock.json has addresses of packages: npm config set omit-lockfile-registry-resolved true" >&2; exit 1; }
if ! cmp -s package-lock.json node_modules/.installed; then
	npm ci --no-audit --no-fund
	cp package-lock.json node_modules/.installed
fi
SITE_ROOT=$root node_modules/.bin/vitepress build . --outDir "$out"
node check.mjs "$out"
