#!/usr/bin/env bash
# Builds the Nacos server that the tests start, into a folder: lib holds its jars
# (113 MB, Maven fetches them), classes its main class. Installs a JDK and Maven
# as root if they are not there.
set -euo pipefail
to=$1
cd "$(dirname "${BASH_SOURCE[0]}")"

../../../../.ci/install javac:default-jdk-headless mvn:maven unshare:util-linux ip:iproute2

if ! cmp -s pom.xml "$to/pom.xml"; then
	rm -rf "$to/lib"
	mvn -q -B -f pom.xml org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies "-DoutputDirectory=$to/lib"
	cp pom.xml "$to/pom.xml"
fi
rm -rf "$to/classes"
javac -nowarn -encoding UTF-8 -d "$to/classes" -cp "$to/lib/hessian-4.0.63.jar:$to/lib/*" ./*.java
cp -r META-INF "$to/classes"
