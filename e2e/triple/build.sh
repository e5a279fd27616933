#!/usr/bin/env bash
# Builds the consumers in Java in the folder that is given, if they are not there:
# with the jars of Dubbo that registry/zookeeper's tests have too, and messages and
# stubs that protoc and Dubbo's own generator make of carts.proto. Installs what is
# missing as root; fetches 9 MB beside, once a machine, by Maven.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"

../../registry/zookeeper/testdata/dubbo/build.sh
../../.ci/install protoc:protobuf-compiler /usr/share/java/zookeeper.jar:zookeeper

cache="${XDG_CACHE_HOME:-$HOME/.cache}/tandem"
dubbo="${DUBBO:-$cache/dubbo-3.3.6}"
compiler="$cache/dubbo-compiler-3.3.5" # the last that there is
if [[ ! -d $compiler ]]; then
	# The folder appears in one step, so a download that was broken off leaves none.
	jars=$(mktemp -d "$compiler.XXXXXX")
	trap 'rm -rf "$jars"' EXIT
	mvn -q -B -f testdata/pom.xml org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies "-DoutputDirectory=$jars"
	mv -T "$jars" "$compiler"
fi

if [[ -e $out/built && -z $(find build.sh carts.proto testdata -newer "$out/built") ]]; then
	exit 0
fi
rm -rf "$out"
mkdir -p "$out/generated" "$out/classes"
printf '#!/bin/sh\nexec java -cp "%s/*" org.apache.dubbo.gen.tri.Dubbo3TripleGenerator\n' "$compiler" >"$out/protoc-gen-triple"
chmod +x "$out/protoc-gen-triple"
protoc --plugin="$out/protoc-gen-triple" --java_out="$out/generated" --triple_out="$out/generated" carts.proto
find "$out/generated" testdata/java -name '*.java' -print0 |
	xargs -0 javac -nowarn -XDsuppressNotes -proc:none -cp "$dubbo/*" -d "$out/classes"
touch "$out/built"
