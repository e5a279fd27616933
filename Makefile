# The commands of this repository; "make" alone lists them. Each works on every
# module that go.work names.

SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help test test-beside interop interop-short interop-jsonrpc interop-together test-protocols test-silence test-observe test-triple test-registries registry-outage test-nacos test-kubernetes short lint fix fmt vet cross cross-all tidy outdated generated docs site console console-check console-e2e console-figures console-picture faults faults-inputs faults-inputs-http faults-short faults-soak fuzz session-soak bombs flood spellings demo sim sim-large sim-check scale bench bench-table bench-keep bench-compare bench-pairs peers cover vuln release release-check api across ci clean

GO  ?= go
BIN := $(CURDIR)/.bin

# Versions of the tools; change one by hand and run "make ci".
GOLANGCI_LINT := v2.15.0
PROTOC_GEN_GO := v1.36.11
PROTOC_GEN_VT := v0.6.0
PROTOC_GEN_GO_GRPC := v1.6.1
PROTOC_GEN_CONNECT := v1.21.1
GOVULNCHECK   := v1.8.0
CYCLONEDX     := v1.10.0
GORELEASE     := v0.0.0-20261014143641-f0251eb4aa3e

# Settings (ATATIME is how many packages are tested at once; most of them wait most of
# the time): make fuzz FUZZTIME=5m, make test TESTFLAGS='-v -run Drain',
# make bench-compare BASE=main COMPARECOUNT=16.
FUZZTIME   ?= 30s
INPUTS     ?= .
INPUTSOF   ?= work
ATATIME    ?= 4
# The race detector lets each program sleep for a second at its end by default, so that it
# sees races of goroutines that still run. goleak fails packages that leave any.
export GORACE ?= atexit_sleep_ms=10
SOAKRUNS   ?= 200
SOAKJOBS   ?= 3
SOAKCALLS  ?= 1000000
OUTAGE     ?= 5m
SOAKTIME   ?= 1h
TESTFLAGS  ?=
LINTFLAGS  ?=
DEMOFLAGS  ?=
BENCHFLAGS ?=
KIND       ?= levels
FAULTSFLAGS ?=

BASE         ?= HEAD
COMPARECOUNT ?= 8
COMPARETIME  ?= 50ms
COMPAREFLAGS ?=

# What a release is compared with: a revision, or nothing for the last release and,
# without one, HEAD~1.
PREVIOUS     ?=
RELEASEFLAGS ?=

# Packages with tests that the race detector would slow down too much, or that meet a
# race of a library's.
unraced = $(filter-out ./e2e/%,$(sort $(dir $(shell grep -rlE --include='*_test.go' '^//go:build .*!race' .))))
modules = $$($(GO) list -m -f '{{.Dir}}')
# Third-party servers and clients require so many modules that what is tested, measured or
# shown with them is outside the workspace, whose versions they would change: the bench's
# peers, end-to-end tests, and programs before and after they moved to tandem.
peers   = bench/peers
outside = $(peers) e2e examples/migrating
# Nacos takes too long to start for every run, and a kube-apiserver to build; they have targets of
# their own.
registries = $(filter-out ./registry/nacos/... ./registry/kubernetes/...,$(patsubst %/go.mod,./%/...,$(wildcard registry/*/go.mod))) ./registry/dns ./compat/rpcx/registries/... ./examples/seeds/...

# What the fault lab breaks networks with, and the registries that it kills.
faulttools = ip:iproute2 nft:nftables iptables:iptables prlimit:util-linux etcd:etcd-server redis-server:redis-server redis-cli:redis-tools /usr/share/java/zookeeper.jar:zookeeper java:default-jre-headless setpriv:util-linux $(storetools)

# The servers that the stores of keyed calls use.
storetools = /usr/bin/redis-server:redis-server /usr/lib/postgresql/15/bin/postgres:postgresql-15

# Packages besides the core's that have files for some systems only.
systems = ./bench/load ./cmd/tandem/internal/demo ./cmd/tandem/internal/loadtest ./transport/nbio/...

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Not $(MAKE): make runs a recipe line with that in it even when it should only print it (-n).
again = make --no-print-directory

# test-beside runs at the same time, as both parts wait most of the time. It has a process group
# of its own, so that nothing of it is left when this is interrupted.
test: ## Test all that needs no third-party servers, with the race detector, and without it what does less under it
	@.ci/install gcc:build-essential python3:python3 ip:iproute2 || true # a test that misses one says so
	@mkdir -p $(BIN)
	set -m; $(again) test-beside >$(BIN)/beside.log 2>&1 & beside=$$!; set +m; trap 'kill -- -$$beside 2>/dev/null || true' EXIT; trap 'exit 130' INT TERM; status=0; \
	$(GO) test -p $(ATATIME) -race -shuffle=on -timeout 10m $(TESTFLAGS) work || status=1; \
	wait $$beside || status=1; cat $(BIN)/beside.log; exit $$status

test-beside: ## The part of test without the race detector, and outside the workspace
	tests=$$(.ci/unraced $(unraced)); $(GO) test -p 2 -shuffle=on -timeout 10m -run "$$tests" $(TESTFLAGS) $(unraced)
	$(GO) test -shuffle=on -timeout 10m $(TESTFLAGS) ./protocol/web -net
	cd e2e && GOWORK=off $(GO) test -p 2 -race -shuffle=on -timeout 10m $(TESTFLAGS) ./interop/bridge ./interop/options ./release
	cd e2e && tests=$$(../.ci/unraced interop/options) && GOWORK=off $(GO) test -shuffle=on -timeout 5m -run "$$tests" $(TESTFLAGS) ./interop/options
	cd $(peers) && GOWORK=off $(GO) test -p 2 -race -shuffle=on -timeout 5m $(TESTFLAGS) ./...

# rpcx and Kitex have data races of their own.
test-protocols: ## Test protocols against real peers, and one in Python; installs that as root
	cd e2e && GOWORK=off $(GO) test -race -shuffle=on -timeout 5m $(TESTFLAGS) ./grpc ./jsonrpc
	cd e2e && GOWORK=off $(GO) test -shuffle=on -timeout 5m $(TESTFLAGS) ./openapi ./rpcx
	cd examples/migrating && GOWORK=off $(GO) test -race -shuffle=on -timeout 5m $(TESTFLAGS) ./grpc/... ./netrpc/...
	cd examples/migrating && GOWORK=off $(GO) test -shuffle=on -timeout 5m $(TESTFLAGS) ./kitex ./rpcx
	@protocol/thrift/testdata/python.sh -shuffle=on $(TESTFLAGS)
	@transport/websocket/testdata/script.sh $(TESTFLAGS)

interop-jsonrpc: ## Test JSON-RPC with clients of others in Go, JavaScript and Python; installs Node.js as root
	@e2e/jsonrpc/clients/run.sh -shuffle=on $(TESTFLAGS)

interop-together: ## Have clients of every protocol, in Go, JavaScript, Python and Java, in one method at the same moment; installs languages as root
	@clients=$$(e2e/interop/together/install.sh); \
	cd e2e/interop/together && TOGETHER_CLIENTS=$$clients GOWORK=off $(GO) test -tags integration -race -v -count=1 -timeout 10m $(TESTFLAGS) .

test-silence: ## Stop processes and break the network under connections over every transport; needs Linux, and the right to have a network of its own
	@.ci/install unshare:util-linux ip:iproute2 nft:nftables
	cd e2e && GOWORK=off $(GO) test -race -shuffle=on -timeout 5m $(TESTFLAGS) ./silence

# Where systemd runs, Debian's package starts a service at port 9090; the tests start a Prometheus
# of their own at a free port.
test-observe: ## Test the dashboards and alert rules with a Prometheus that scrapes servers and clients in trouble; installs that as root
	@.ci/install prometheus:prometheus promtool:prometheus
	cd e2e && GOWORK=off $(GO) test -tags integration -race -shuffle=on -timeout 5m $(TESTFLAGS) ./observe

test-triple: ## Test consumers of Dubbo 3 in Java against protocol/web, by URL and through ZooKeeper, and the pair of examples/migrating/dubbo; installs Java as root, fetches 54 MB
	@e2e/triple/build.sh $(BIN)/triple
	cd e2e/triple && TRIPLE=$(BIN)/triple GOWORK=off $(GO) test -tags integration -race -shuffle=on -v -timeout 10m $(TESTFLAGS) .
	cd examples/migrating/dubbo && GOWORK=off $(GO) test -tags integration -race -v -timeout 10m $(TESTFLAGS) .

test-registries: ## Test the registries, and clusters that use them, against real servers; installs those as root
	@./registry/install.sh
	$(GO) test -p $(ATATIME) -tags integration -race -shuffle=on -timeout 10m $(TESTFLAGS) $(registries)
	cd e2e && GOWORK=off $(GO) test -tags integration -race -shuffle=on -timeout 10m $(TESTFLAGS) ./etcd ./registries
	cd e2e && GOWORK=off $(GO) test -shuffle=on -timeout 10m $(TESTFLAGS) ./registries/rpcx

test-stores: ## Test the stores of keyed calls against a real Redis and a real Postgres; installs those as root
	@.ci/install $(storetools)
	$(GO) test -tags integration -race -shuffle=on -timeout 5m $(TESTFLAGS) ./stores/...

registry-outage: ## Kill etcd and ZooKeeper for OUTAGE (5m) under load; and etcd with 2,000 registrations
	@./registry/install.sh
	$(GO) test -tags integration -v -timeout 5m -run TestThousandsComeBack ./registry/etcd -long
	cd e2e && GOWORK=off $(GO) test -tags integration -v -timeout 2h -run Outage ./registries -outage $(OUTAGE)

test-nacos: ## Test registry/nacos with a real server in a network of its own; installs Java as root, fetches 113 MB (not part of ci)
	@registry/nacos/testdata/server/build.sh $(BIN)/nacos
	cd registry/nacos && $(GO) test -race -tags integration -c -o $(BIN)/nacos.test .
	cd registry/nacos && NACOS_SERVER=$(BIN)/nacos unshare -rn sh -c 'ip link set lo up && exec $(BIN)/nacos.test -test.v -test.shuffle=on -test.timeout=20m -test.run=Real $(TESTFLAGS)'

# The pods have addresses of their own, as EndpointSlices must not have loopback addresses.
test-kubernetes: ## Test registry/kubernetes, and how pods stop, with a real kube-apiserver and etcd; builds the first once a machine, in 10 to 20 minutes (not part of ci)
	@registry/kubernetes/install.sh
	cd registry/kubernetes && $(GO) test -race -tags integration -c -o $(BIN)/kubernetes.test .
	cd registry/kubernetes && unshare -rn sh -c 'ip link set lo up && ip addr add 10.77.0.1/24 dev lo && exec $(BIN)/kubernetes.test -test.v -test.shuffle=on -test.timeout=20m -test.run=Real $(TESTFLAGS)'

short: ## Test every module of the workspace, quickly and from the cache
	$(GO) test -short $(TESTFLAGS) work

# For modules outside the workspace, which have many dependencies, lint runs only the linters
# that need no types; the others take 20 s of CPU for each module
# on a machine without a cache. "make lint LINTOUTSIDE=" asks all.
LINTOUTSIDE ?= --fast-only

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT) ## Run all linters (.golangci.yml says which are off, and why)
	@status=0; echo "golangci-lint run, the workspace"; \
	$< run --allow-parallel-runners $(LINTFLAGS) $$($(GO) list -m -f '{{.Dir}}/...') || status=1; \
	for dir in $(outside); do \
		echo "go vet and golangci-lint run $(LINTOUTSIDE), $$dir"; \
		(cd "$$dir" && GOWORK=off $(GO) vet -tags integration ./... && GOWORK=off $< run $(LINTOUTSIDE) --allow-parallel-runners --config $(CURDIR)/.golangci.yml $(LINTFLAGS) ./...) || status=1; \
	done; \
	echo "golangci-lint run, all linters, for those packages of them that have few dependencies"; \
	(cd e2e && GOWORK=off $< run --allow-parallel-runners --config $(CURDIR)/.golangci.yml $(LINTFLAGS) ./interop/... ./observe ./openapi ./registries ./release ./silence ./triple) || status=1; \
	(cd examples/migrating && GOWORK=off $< run --allow-parallel-runners --config $(CURDIR)/.golangci.yml $(LINTFLAGS) ./dubbo/... ./grpc/... ./netrpc/...) || status=1; \
	exit $$status

fix: ## Let the linters mend what they can
	@$(MAKE) --no-print-directory lint LINTFLAGS=--fix

$(BIN)/golangci-lint-$(GOLANGCI_LINT):
	GOBIN=$(BIN) GOWORK=off $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(BIN)/golangci-lint $@

fmt: ## Fail if a file is not formatted
	@test -z "$$(gofmt -l . | tee /dev/stderr)"

vet: ## Vet every module of the workspace, and the core alone (lint vets the others)
	$(GO) vet work
	GOWORK=off $(GO) vet ./...

cross: ## Vet the core, and what has files for some systems only, for macOS and Windows
	@for os in darwin windows; do \
		export GOOS=$$os CGO_ENABLED=0; \
		echo "go vet for $$os"; \
		$(GO) vet ./... $(systems); \
	done

cross-all: ## Build and vet every module for macOS and Windows
	@for os in darwin windows; do \
		export GOOS=$$os CGO_ENABLED=0; \
		echo "go build and go vet for $$os"; \
		$(GO) build work; \
		$(GO) vet work; \
	done

tidy: ## Fail if a go.mod or go.sum is not tidy
	@for dir in $(modules) $(outside); do (cd "$$dir" && GOWORK=off $(GO) mod tidy -diff); done

# Indirect ones are listed of golang.org/x only: what parses and encrypts. A module whose
# list of versions the proxy refuses is said to be unknown.
newer = {{if .Error}}{{.Path}}: unknown{{else if and .Update (or (not .Indirect) (eq (printf "%.13s" .Path) "golang.org/x/"))}}{{.Path}} {{.Version}} -> {{.Update.Version}}{{end}}
outdated: ## List the dependencies of every module that have a newer version (needs the network; not part of ci)
	@for mod in $$(git ls-files '*go.mod'); do \
		(cd "$$(dirname "$$mod")" && GOWORK=off $(GO) list -e -m -u -f '$(newer)' all 2>/dev/null) | \
		grep -v '^github.com/tandem-rpc/tandem\|^$$' | sed "s|^|$$(dirname "$$mod"): |"; \
	done; true

generated: ## Generate again, and fail if that changed a file (needs protoc)
	@GOBIN=$(BIN) GOWORK=off $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO)
	@GOBIN=$(BIN) GOWORK=off $(GO) install github.com/planetscale/vtprotobuf/cmd/protoc-gen-go-vtproto@$(PROTOC_GEN_VT)
	@GOBIN=$(BIN) GOWORK=off $(GO) install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC)
	@GOBIN=$(BIN) GOWORK=off $(GO) install connectrpc.com/connect/cmd/protoc-gen-connect-go@$(PROTOC_GEN_CONNECT)
	@sums() { grep -rlE --include='*.go' '^// Code generated .* DO NOT EDIT\.$$' . | sort | xargs grep -HvE '^//[[:space:]]+(- )?protoc[[:space:]]' | sha256sum; }; \
	before=$$(sums); \
	PATH="$(BIN):$$PATH"; $(GO) generate work; (cd e2e && GOWORK=off $(GO) generate ./...); \
	test "$$before" = "$$(sums)" || { echo "generated files were stale and have been written anew: commit them" >&2; exit 1; }

docs: ## Check the house rules, the links and the snippets of the documentation
	GOWORK=off $(GO) test ./internal/housecheck .

npm = cd console/ui && npm ci --no-audit --no-fund --silent && npm run --silent

console: ## Build the console's page into console/dist; installs Node.js as root, and packages of npm
	@.ci/install node:nodejs npm:npm
	$(npm) build

console-check: console ## Build the console's page, run its tests, and fail if console/dist is not what is built
	cd console/ui && npm run --silent test && npm run --silent sizes
	@git diff --exit-code --stat -- console/dist && [ -z "$$(git status --porcelain -- console/dist)" ] || { echo "console/dist is stale: commit what make console has built" >&2; exit 1; }

console-e2e: ## Test the console in Chromium: every screen with a generated cluster, and changes with a real one in etcd; installs what it needs as root
	@.ci/install node:nodejs npm:npm chromium:chromium etcd:etcd-server
	$(GO) build -o $(BIN)/tandem ./cmd/tandem
	$(GO) build -o $(BIN)/till ./cmd/tandem/internal/till
	$(GO) build -o $(BIN)/retries ./console/testdata/retries
	$(npm) build && npm run --silent e2e && TANDEM=$(BIN)/tandem TILL=$(BIN)/till RETRIES=$(BIN)/retries npm run --silent cluster

console-figures: ## Measure the console with 2,000 services in Chromium: the first view, memory, scrolling; installs what it needs as root
	@.ci/install node:nodejs npm:npm chromium:chromium
	$(npm) build && node scripts/run.mjs test/firstview.ts && node scripts/run.mjs test/scroll.ts

console-picture: ## Make README.md's picture of the console, with tandem demo --console; takes five minutes, installs what it needs as root
	@.ci/install node:nodejs npm:npm chromium:chromium
	$(GO) build -o $(BIN)/tandem ./cmd/tandem
	$(npm) build && TANDEM=$(BIN)/tandem node scripts/run.mjs test/picture.ts

site: ## Build the documentation as a web site into .bin/site, and check that it loads nothing from other origins; installs Node.js as root, and packages of npm
	docs/site/build.sh $(BIN)/site-npm $(BIN)/site

# A minute is Go's default for making an input smaller, and codecs' inputs rarely are: a
# target then executed 0 to 300 inputs a second, and not thousands.
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@$(GO) test -list '^Fuzz' work | \
	awk '/^Fuzz/ {t[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2, t[i]; n = 0}' | \
	{ failed=; while read -r package target; do \
		echo "== $$package $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$package" </dev/null || failed="$$failed $$target"; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }; }

session-soak: ## Run the session tests SOAKRUNS (200) times, SOAKJOBS (3) at a time, with -race -shuffle=on, then SOAKCALLS (1000000) calls
	@mkdir -p $(BIN)
	$(GO) test -race -c -o $(BIN)/session.test ./internal/session
	@cd internal/session && seq $(SOAKRUNS) | xargs -P $(SOAKJOBS) -I {} sh -c \
		'log=$(BIN)/session.{}.log; $(BIN)/session.test -test.shuffle=on -test.timeout=5m >$$log 2>&1 || { cat $$log; echo "run {} failed" >&2; exit 255; }; rm $$log; echo "run {} passed"'
	cd internal/session && $(BIN)/session.test -test.v -test.timeout=60m -test.run=Stranger -calls=$(SOAKCALLS)

bombs: ## Send 1,024 bombs of each protocol and compressor at the same time: a server takes at most 512 MiB
	$(GO) test -run TestBombsAreBounded -v -count=1 -timeout 60m ./protocol/all ./protocol/thrift -bombs 1024

spellings: ## Spell the names of denied methods in a million ways on each protocol: no call may pass
	$(GO) test -run 'TestSpellings$$' -v -count=1 -timeout 3h ./protocol/all ./protocol/thrift -spellings 1000000

flood: ## Open 2,000 silent connections a second for 30 s, and 1,000 honest ones beside them: none may fail
	$(GO) test -run TestSilentFlood -v -count=1 ./server -flood 30s -flood-rate 2000 -flood-honest 1000 -flood-networks 65536 -flood-p99 500ms

interop: ## Have suites and clients of other projects test protocol/web, and write docs/reference/interop.md; installs what it can
	cd e2e/interop && GOWORK=off $(GO) run ./run -bin $(BIN)/interop -out $(CURDIR)/docs/reference/interop.md

interop-short: ## Those of them that are written in Go
	cd e2e/interop && GOWORK=off $(GO) run ./run -bin $(BIN)/interop -short

faults: ## Run the fault lab against tandem, grpc-go and rpcx: processes and networks that break under load; write docs/reliability; an hour and a half, and FAULTSFLAGS=-resume goes on after an interruption; needs Linux and root
	@.ci/install $(faulttools)
	registry/consul/install.sh
	cd e2e/faults && GOWORK=off $(GO) build -o $(BIN)/faults . && GO=$(GO) ./clock.sh $(BIN)/faults-clock && \
	$(BIN)/faults -clock $(BIN)/faults-clock -out $(CURDIR)/docs/reliability $(FAULTSFLAGS)

faults-short: ## Run the fault lab's short form, at most three minutes
	@.ci/install $(faulttools)
	cd e2e/faults && GOWORK=off $(GO) test -race -shuffle=on $(TESTFLAGS) . && GOWORK=off $(GO) build -o $(BIN)/faults . && $(BIN)/faults -short $(FAULTSFLAGS)

faults-soak: ## Run the fault lab's cell memory for SOAKTIME (1h): at most a million calls, then both sides hold what they held before
	@.ci/install $(faulttools)
	cd e2e/faults && GOWORK=off $(GO) build -o $(BIN)/faults . && $(BIN)/faults -run memory -systems tandem -soak $(SOAKTIME) $(FAULTSFLAGS)

# Coverage costs fuzzing most of its speed: "make fuzz" searches with it, and what it has found is
# among the inputs that are changed here, a hundred times as quickly.
faults-inputs: ## Give every parser, or those that INPUTS matches (package and target), a million malformed inputs, made from the corpus of its fuzz target; at the same commit it goes on after an interruption
	@done=$(BIN)/inputs/$$(git describe --always --dirty); mkdir -p "$$done"; \
	$(GO) test -list '^Fuzz' $(INPUTSOF) | awk '/^Fuzz/ {t[n++] = $$1} /^ok/ {for (i = 0; i < n; i++) print $$2, t[i]; n = 0}' | grep -E '$(INPUTS)' | \
	{ failed=; while read -r package target; do \
		echo "== $$package $$target"; mark="$$done/$${package//\//-}-$$target"; \
		if [ -e "$$mark" ]; then echo "done before"; continue; fi; \
		if $(GO) test -c -o $(BIN)/inputs.test "$$package" && (cd "$$($(GO) list -f '{{.Dir}}' "$$package")" && $(BIN)/inputs.test \
			-test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime 1000000x -test.fuzzminimizetime 20x \
			-test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz/$$package" </dev/null); then touch "$$mark"; else failed="$$failed $$target"; fi; \
	done; rm -f $(BIN)/inputs.test; [ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }; }

faults-inputs-http: ## The same for HTTP/2 beside net/http's, paths of google.api.http, NDJSON, gRPC-Web's text, and headers of the bridge
	@$(MAKE) --no-print-directory faults-inputs INPUTSOF='./protocol/web ./protocol/rest ./grpcbridge' \
		INPUTS='/web Fuzz(HTTP2Engines|Lines|Text)|/rest Fuzz|/grpcbridge Fuzz'

demo: ## Run the demo: a cluster under fire, and no call lost
	$(GO) run ./cmd/tandem demo $(DEMOFLAGS)

sim: ## Play clusters in trouble in virtual time: fail if a figure is missed, write docs/sim
	$(GO) run ./internal/sim/cmd/sim -out docs/sim
	$(GO) run ./internal/sim/cmd/sim -large -out docs/sim
	$(GO) run ./bench draw docs/sim <docs/sim/charts.json
	$(GO) run ./bench draw docs/sim <docs/sim/large.json

sim-large: ## Play the large scenarios of the simulator and every planted fault, which takes many minutes
	$(GO) test -timeout 60m -v -run TestLargeScenarios ./internal/sim -large

scale: ## Measure real clients and servers: thousands of connections, lists of 10,000 instances
	$(GO) test -count=1 -timeout 20m -v ./internal/scale -large

sim-check: ## Play every scenario of the simulator and every planted fault: fail if a figure is missed, or if docs/sim is not what is played
	$(GO) test -shuffle=on -timeout 10m $(TESTFLAGS) ./internal/sim -all

bench: ## Measure calls against other frameworks and the floors
	$(GO) run ./bench calls $(BENCHFLAGS)

bench-table: ## Measure the seeds' whole table: three deployments, 100 to 5000 callers; takes hours, needs root
	$(GO) run ./bench table $(BENCHFLAGS)

bench-keep: ## Run the scenario KIND (levels) and keep its result in bench/results, in place of the last
	$(GO) run ./bench $(KIND) -out bench/results/$(KIND) $(BENCHFLAGS)

bench-compare: ## Measure the hot packages at BASE (HEAD) and now: fail if 5 % slower, or with more allocations
	$(GO) run ./bench revisions -base $(BASE) -count $(COMPARECOUNT) -time $(COMPARETIME) $(COMPAREFLAGS)

bench-pairs: ## Measure calls at BASE (HEAD) and now in turns: fail if a loss of more than 2 % is not excluded
	$(GO) run ./bench pairs -base $(BASE) $(BENCHFLAGS)

peers: ## Vet every peer of the bench, and make a few calls with each
	cd $(peers) && export GOWORK=off && $(GO) mod tidy -diff && $(GO) vet ./...
	$(GO) run ./bench calls -callers 4 -rounds 1 -warmup 50ms -duration 100ms
	$(GO) run ./bench calls -callers 4 -rounds 1 -warmup 50ms -duration 100ms -mode shared -systems tandem+tls+metrics+trace+accesslog,tandem-over+quic,tandem-over+kcp,tandem-over+unix,tandem-over+nbio,netrpc+gob

cover: ## Show how much of the core its tests cover
	GOWORK=off $(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	@$(GO) tool cover -func=coverage.out | tail -1

vuln: ## Look for known vulnerabilities (needs the network; not part of ci)
	@for dir in $(modules) $(outside); do (cd "$$dir" && GOWORK=off $(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./...); done

sbom      = $(BIN)/cyclonedx-gomod-$(CYCLONEDX)
gorelease = $(BIN)/gorelease-$(GORELEASE)
releases  = cd e2e && GOWORK=off $(GO) build -o $(BIN)/release ./release && cd .. && $(BIN)/release

release: $(sbom) $(gorelease) ## Release HEAD as VERSION (v0.1.0): tags of every module here, and binaries, SBOMs and an image in dist; pushes nothing
	$(releases) make -version '$(VERSION)' -sbom $(sbom) -gorelease $(gorelease)

release-check: $(sbom) ## Release the work tree in a temporary folder, and use it as users would
	$(releases) check -sbom $(sbom) $(RELEASEFLAGS)

api: $(gorelease) ## Report how the core's API differs from the last release, or from PREVIOUS; RELEASEFLAGS=-all: of every library
	$(releases) api -base '$(PREVIOUS)' -gorelease $(gorelease) $(RELEASEFLAGS)

across: ## Have the last release's client and server call this one's; or those of PREVIOUS
	$(releases) across -base '$(PREVIOUS)'

$(sbom):
	GOBIN=$(BIN) GOWORK=off $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX)
	mv $(BIN)/cyclonedx-gomod $@

$(gorelease):
	GOBIN=$(BIN) GOWORK=off $(GO) install golang.org/x/exp/cmd/gorelease@$(GORELEASE)
	mv $(BIN)/gorelease $@

ci: ## Run everything that CI runs
	.ci/run

clean: ## Remove what the targets leave behind
	rm -rf $(BIN) dist coverage.out
