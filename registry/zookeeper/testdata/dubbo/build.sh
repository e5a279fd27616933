#!/usr/bin/env bash
# Fetches the jars of Dubbo, whose own registry meets ours in the tests, once a
# machine: 45 MB, by Maven. Installs a JDK and Maven as root if they are not there.
#
# DUBBO names another folder with those jars, and nothing is fetched then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

../../../../.ci/install javac:default-jdk-headless mvn:maven

dir="${XDG_CACHE_HOME:-$HOME/.cache}/tandem/dubbo-3.3.6"
if [[ -n ${DUBBO:-} || -d $dir ]]; then
	exit 0
fi
# The folder appears in one step, so a download that was broken off leaves none.
mkdir -p "$(dirname "$dir")"
jars=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$jars"' EXIT
mvn -q -B -f pom.xml org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies "-DoutputDirectory=$jars"
mv -T "$jars" "$dir"
echo "dubbo: its jars are in $dir"
