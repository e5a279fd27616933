#!/usr/bin/env bash
# Installs what it takes to build and run the bench's peers in Java, if it is
# not there. Their jars are Maven's to fetch.
set -euo pipefail

exec "$(dirname "${BASH_SOURCE[0]}")/../../.ci/install" javac:default-jdk-headless mvn:maven protoc:protobuf-compiler thrift:thrift-compiler
