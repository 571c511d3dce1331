# make check is what CI runs.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
PROTOC_GEN_GO = google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12

PYTHON ?= python3

.PHONY: build test race fuzz kill slurm soak mutants check wheel test-python cross test-torch module release generate bench-pytorch bench-autoattack bench-peers models-table compare-results

build:
	go build -o selfheal .

test:
	go test ./...

# The packages whose goroutines share state, without slow tests in which nothing goes on beside anything (ALONE); of
# whole runs, those in which much does (BESIDE).
ALONE = ^Test(BrokenImagesAreNotBranchedOn|ParseIsLinear|GraphAnswersAsTheController|GradientsAgreeWithPyTorch|ThroughAgreesWithDifferences|NoClassifier|NPYErrors|AlexNetsErrors|Seeds|OtherTrainingsAreRefused|ForcedFit|JointFit)$$
BESIDE = Merge|Attempts|DamagedShards|Submit|Continue|Stopped|Journal|Removed|DependOn|CraftedOnce|Cancel|Bracket|Prove|Votes
race:
	go test -race -short -count=1 -skip '$(ALONE)' ./models/ort ./control $$(go list ./harness/... | \
		grep -v -e 'harness$$' -e /cell -e /cluster -e /compare -e /config -e /gate -e /picture -e /plan -e /result -e /stats)
	go test -race -short -count=1 -run '$(BESIDE)' ./harness

# Hostile bytes for everything that reads files, so long for each target.
FUZZTIME ?= 10m
fuzz:
	@grep -ro '^func Fuzz[A-Za-z0-9]*' --include=*_test.go . | sed 's|/[^/]*:func | |' | while read -r package target; do \
		nice go test $$package -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s -parallel 1 || exit 1; done

# Runs that are killed; REAL is a folder of networks with a config.yaml.
kill:
	SELFHEAL_TEST_KILLS=50 SELFHEAL_TEST_KILLED=$(REAL) go test ./internal/cli -run TestKills -count=1 -v -timeout 0

# Shards on a Slurm of two nodes on this machine, disturbed; needs root and Debian's packages of Slurm.
slurm:
	SELFHEAL_TEST_SLURM=1 go test ./internal/cli -run TestSlurm -count=1 -v -timeout 0

# Runs at full load, so long; and many images beside few.
SOAK ?= 30m
soak:
	SELFHEAL_TEST_SOAK=$(SOAK) go test ./harness -run 'TestSoak|TestManyImages' -count=1 -v -timeout 0

# Whether tests fail where the code does: mutants drawn from eight packages, each under its package's own tests; hours.
MUTANTS ?= mutants
EACH ?= 25
mutants:
	nice go run ./scripts/verify/mutants -out $(MUTANTS) -each $(EACH)

# The configs of harness/testdata/configs by another version's program, BEFORE, and by this checkout: each image that differs.
COMPARED ?= out/compared
compare-results:
	@test -n "$(BEFORE)" || { echo "make compare-results: BEFORE must name the program to compare with"; exit 2; }
	rm -rf $(COMPARED) && mkdir -p $(COMPARED) && go build -o $(COMPARED)/selfheal .
	$(PYTHON) scripts/verify/compare_results.py --run $(BEFORE) --out $(COMPARED)/before
	$(PYTHON) scripts/verify/compare_results.py --run $(COMPARED)/selfheal --out $(COMPARED)/after
	$(PYTHON) scripts/verify/compare_results.py $(COMPARED)/before $(COMPARED)/after

check:
	@test -z "$$(gofmt -l .)" || { echo "gofmt:"; gofmt -l .; exit 1; }
	go vet ./...
	go mod tidy -diff
	go run $(STATICCHECK) ./...
	go test ./...

# This machine's wheel of the Python package; SELFHEAL_TARGET=linux/arm64 or windows/amd64 is another one's.
WHEELS ?= dist
wheel: .venv
	.venv/bin/python -m build --wheel --no-isolation --outdir $(WHEELS) scripts/python

# The Python package as users get it: its wheel, installed.
test-python:
	rm -rf .venv/wheel
	$(MAKE) --no-print-directory wheel WHEELS=.venv/wheel
	.venv/bin/python -m pip install -q --force-reinstall --no-deps .venv/wheel/*.whl
	.venv/bin/python -m pip install -q .venv/wheel/*.whl
	.venv/bin/ruff check scripts/python && .venv/bin/ruff format --check scripts/python
	cd .venv && bin/python -m mypy -p selfheal --config-file ../scripts/python/pyproject.toml
	.venv/bin/twine check --strict .venv/wheel/*.whl
	.venv/bin/check-wheel-contents .venv/wheel/*.whl
	.venv/bin/python -m pytest -q --import-mode=importlib -p no:cacheprovider scripts/python/tests

# Builds the program for Windows: of a release's platforms the one that is least like this one.
cross: .venv
	.venv/bin/python scripts/release/program.py --target windows/amd64 --out .venv/selfheal.exe

# Modules and tensors of PyTorch, by an interpreter that has PyTorch and the wheel; AUTOATTACK is a checkout of
# fra31/auto-attack, which the same script is run with.
test-torch:
	AUTOATTACK=$(AUTOATTACK) $(PYTHON) -m pytest -q -s --import-mode=importlib -p no:cacheprovider scripts/python/tests/test_torch.py

.venv: scripts/python/tests/requirements.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install -q -r scripts/python/tests/requirements.txt
	@touch .venv

# A release's archives and wheels for every platform, bill of materials and checksums; what starts here is tried.
release: .venv
	.venv/bin/python scripts/release/release.py --out dist

# Renames the module, so that `go install MODULE@latest` works once it lies there: make module MODULE=github.com/OWNER/selfheal
module:
	@test -n "$(MODULE)" || { echo "make module: MODULE must be the module's new path, such as github.com/OWNER/selfheal"; exit 2; }
	old=$$(go list -m); files=$$(grep -rlF --include='*.go' "\"$$old/" .); \
	for package in $$(go list ./... | grep "^$$old/"); do \
		echo "s|\"$$package\"|\"$(MODULE)$${package#$$old}\"|g"; done >module.sed; \
	sed -i.before -f module.sed $$files && gofmt -w $$files && \
	find . -name '*.go.before' -delete && rm module.sed
	go mod edit -module $(MODULE)

# Regenerates the ONNX types from their definition; needs protoc.
generate:
	@mkdir -p .bin && GOBIN=$(CURDIR)/.bin go install $(PROTOC_GEN_GO)
	cd models/onnx/onnxpb && PATH="$(CURDIR)/.bin:$$PATH" protoc --go_out=. --go_opt=paths=source_relative selfheal_onnx.proto
	@rm -r .bin

# What follows needs PyTorch: PYTHON is an interpreter that has it, ALSO names more
# of them, for other versions, and RUNNER one with onnxruntime where those lack it.

# Passes side by side with PyTorch, on a quiet machine: docs/measured/performance.md.
bench-pytorch:
	$(PYTHON) scripts/bench/pytorch.py --out docs/measured/performance.md $(foreach p,$(ALSO),--also $(p))

# The reference AutoAttack, a checkout of it in AUTOATTACK, against selfheal on suites of
# a config, on an idle machine: docs/measured/performance.md.
CONFIG ?= config.yaml
SUITES ?= bundled
bench-autoattack:
	@test -n "$(AUTOATTACK)" || { echo "make bench-autoattack: AUTOATTACK must name a checkout of fra31/auto-attack"; exit 2; }
	$(PYTHON) scripts/bench/autoattack.py --reference $(AUTOATTACK) --config $(CONFIG) $(foreach s,$(SUITES),--suite $(s)) --out docs/measured/performance.md

# PGD beside Foolbox's, ART's and torchattacks' on the same suites: docs/measured/performance.md.
bench-peers:
	$(PYTHON) scripts/bench/peers.py --config $(CONFIG) $(foreach s,$(SUITES),--suite $(s)) --out docs/measured/performance.md

# Every architecture against PyTorch: docs/measured/models.md.
models-table:
	$(PYTHON) scripts/verify/models_table.py --out docs/measured/models.md $(foreach p,$(ALSO),--also $(p)) $(if $(RUNNER),--runner $(RUNNER))
