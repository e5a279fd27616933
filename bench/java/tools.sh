#!/usr/bin/env bash
# Installs what it takes to build and run the bench's peers in Java, if it is
# not there. Their jars are Maven's to fetch.
set -euo pipefail

missing=()
for pair in javac:default-jdk-headless mvn:maven protoc:protobuf-compiler thrift:thrift-compiler; do
	command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
((${#missing[@]} == 0)) && exit
if ! command -v apt-get >/dev/null || [[ $(id -u) != 0 ]]; then
	echo "please install: ${missing[*]}" >&2
	exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "${missing[@]}"
