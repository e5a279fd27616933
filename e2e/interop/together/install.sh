#!/usr/bin/env bash
# Installs the clients that are not written in Go, once a version, and says in which
# folder. What is missing of their languages is installed as root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

../../../.ci/install node:nodejs npm:npm python3:python3 pip3:python3-pip javac:default-jdk-headless mvn:maven curl:curl

cache="${XDG_CACHE_HOME:-$HOME/.cache}/tandem"
mkdir -p "$cache"
dubbo="${DUBBO:-$cache/dubbo-3.3.6}"

# The sum of the versions and of what is compiled names the folder, so that a change
# installs anew.
sum=$(cat clients/js/package.json clients/python/requirements.txt clients/java/pom.xml clients/java/*.java clients/java/gate/*.java | sha256sum | cut -c1-12)
to="$cache/together-$sum"
if [[ ! -e $to/complete ]]; then
	../../../registry/zookeeper/testdata/dubbo/build.sh >&2
	rm -rf "$to"
	mkdir -p "$to/js" "$to/classes"
	cp clients/js/package.json "$to/js"
	# The three wait for the network, each for another end of it.
	jobs=()
	npm install --prefix "$to/js" --no-package-lock --no-audit --no-fund --ignore-scripts --silent >&2 &
	jobs+=($!)
	pip3 install --quiet --disable-pip-version-check --target "$to/python" -r clients/python/requirements.txt >&2 &
	jobs+=($!)
	mvn -q -B -f clients/java/pom.xml org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies "-DoutputDirectory=$to/grpc" >&2 &
	jobs+=($!)
	for job in "${jobs[@]}"; do wait "$job"; done
	javac -nowarn -proc:none -cp "$dubbo/*" -d "$to/classes" clients/java/DubboClient.java clients/java/gate/*.java
	javac -nowarn -proc:none -cp "$to/grpc/*" -d "$to/classes" clients/java/GrpcClient.java
	touch "$to/complete"
fi
ln -sfn "$dubbo" "$to/dubbo"
cp clients/js/clients.mjs "$to/js"
cp clients/python/clients.py "$to"
echo "$to"
