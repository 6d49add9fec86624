# The commands of the project; "make" alone lists them. Everything that they
# fetch or build beside Go's own caches is kept in .cache.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

STATICCHECK_VERSION := v0.8.2
STATICCHECK         := $(CURDIR)/.cache/bin/staticcheck-$(STATICCHECK_VERSION)
GOVULNCHECK_VERSION := v1.9.0
GOVULNCHECK         := $(CURDIR)/.cache/bin/govulncheck-$(GOVULNCHECK_VERSION)

# Modules of this repository, the library first.
MODULES   := . $(patsubst %/go.mod,%,$(wildcard internal/*/go.mod examples/go.mod bench/go.mod contrib/*/go.mod))
# Kinds of brokers that tests name their subtests after.
TARGETS   := kfake,0.8.0,0.8.1.1,0.8.2.2,0.9.0.1,0.10.2.2,0.11.0.3,1.1.1,2.8.2,3.9.2,4.4.0
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
# Build constraints differ by system; the system at hand is vetted by "check".
VET_PLATFORMS := $(filter-out $(shell go env GOOS)/%,linux/amd64 darwin/arm64 windows/amd64)
FUZZTIME  := 20s

.PHONY: help demo test check fmt vet staticcheck govulncheck tidy tests matrix unit cross consumer-check sidebyside soak recovery fuzz cover bench bench-full clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## see the library at work; needs no broker
	@cd examples && go run ./quickstart

test: check tests cross consumer-check ## run everything; real Kafka needs a JDK and Maven

check: fmt vet staticcheck tidy ## formatting, go vet, staticcheck and go.mod files

fmt:
	@files=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	if [ -n "$$files" ]; then echo "not formatted with gofmt:"; echo "$$files"; exit 1; fi

vet:
	@for m in $(MODULES); do echo "go vet $$m"; (cd $$m && go vet ./...); done

staticcheck: $(STATICCHECK)
	@for m in $(MODULES); do echo "staticcheck $$m"; (cd $$m && $(STATICCHECK) ./...); done

$(STATICCHECK):
	@mkdir -p $(@D)/tmp
	GOBIN=$(@D)/tmp go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	@mv $(@D)/tmp/staticcheck $@

govulncheck: $(GOVULNCHECK) ## known vulnerabilities in what is used; asks the Go vulnerability database
	@for m in $(MODULES); do echo "govulncheck $$m"; (cd $$m && $(GOVULNCHECK) ./...); done

$(GOVULNCHECK):
	@mkdir -p $(@D)/tmp
	GOBIN=$(@D)/tmp go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv $(@D)/tmp/govulncheck $@

tidy:
	@for m in $(MODULES); do echo "go mod tidy -diff $$m"; (cd $$m && go mod tidy -diff); done

tests: ## all tests of all modules, with a table of what ran on which broker
	@go run ./internal/ci/runtests -counts testdata/test-counts.txt -targets $(TARGETS) $(MODULES) -- -race -shuffle=on -timeout=10m

# V is the release to run on, such as 0.9.0.1; empty: all of them.
V :=
matrix: ## the suite for brokers of all releases; V=0.9.0.1 for one of them
	cd internal/e2e && go test -race -count=1 -timeout=10m $(if $(V),-run '/^$(V)$$') ./matrix

unit: ## the tests that start no broker outside of the test binary
	go test -race -shuffle=on ./...

cross: ## build the library for each platform, vet it for each system
	@for p in $(PLATFORMS); do \
		echo "go build $$p"; CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build ./...; \
	done
	@for p in $(VET_PLATFORMS); do \
		echo "go vet $$p"; CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go vet ./...; \
	done

consumer-check: ## build a module that uses the library; see what it downloads
	@go run ./internal/ci/consumercheck

sidebyside: ## the same calls through kafka-python and the library, on 4.4.0 or V
	cd internal/e2e && go test -race -count=1 -timeout=5m -run SideBySide . -args -sidebyside $(or $(V),4.4.0)

SOAK_RELEASES := 4.4.0 3.9.2 2.8.2 1.1.1 0.9.0.1
MINUTES       := 10

soak: ## groups with other clients, members killed at random: MINUTES on each release, or on V
	@for v in $(or $(V),$(SOAK_RELEASES)); do \
		(cd internal/e2e && go test -race -count=1 -v -run TestMixedCompany -timeout $$(($(MINUTES) + 15))m ./soak -args -release $$v -time $(MINUTES)m); \
	done

recovery: ## how clients get over faults of brokers: this one and others
	cd internal/e2e && go test -count=1 -v -timeout=25m -run TestCluster/4.4.0/faults_of_the_coordinator . -args -peers

fuzz: ## run each fuzz test for FUZZTIME
	@go list ./... | while read -r p; do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p; \
		done; \
	done

cover: ## coverage of the library by its own tests and by those on brokers
	@rm -rf .cache/cover && mkdir -p .cache/cover/unit .cache/cover/e2e
	go test -cover -coverpkg=./... ./... -args -test.gocoverdir=$(CURDIR)/.cache/cover/unit
	cd internal/e2e && go test -cover -coverpkg=github.com/kafkaconsumer/kafka/... . -args -test.gocoverdir=$(CURDIR)/.cache/cover/e2e
	go tool covdata percent -i=.cache/cover/unit,.cache/cover/e2e
	go tool covdata textfmt -i=.cache/cover/unit,.cache/cover/e2e -o .cache/cover/all.out
	@echo "lines: go tool cover -html .cache/cover/all.out"

BENCH_KAFKA := 4.4.0
# BENCHTAGS=confluent adds confluent-kafka-go, which needs cgo.
BENCHTAGS   :=
BENCHFLAGS  :=

bench: ## this client beside others, in a few minutes
	@mkdir -p .cache/bin
	@cd bench && go build -tags '$(BENCHTAGS)' -o ../.cache/bin/bench ./cmd/bench
	.cache/bin/bench $(BENCHFLAGS)

bench-full: ## all benchmarks, also on real Kafka; writes bench/RESULTS.md
	@mkdir -p .cache/bin
	@cd bench && go build -tags 'confluent $(BENCHTAGS)' -o ../.cache/bin/bench ./cmd/bench
	.cache/bin/bench -full -kafka $(BENCH_KAFKA) -results bench $(BENCHFLAGS)

clean: ## remove .cache with the jars of Kafka
	rm -rf .cache bin
