# make check is what CI runs.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
PROTOC_GEN_GO = google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12

.PHONY: build test race check generate

build:
	go build -o selfheal .

test:
	go test ./...

# The packages whose goroutines share state.
race:
	go test -race -short -count=1 ./models/ort ./control ./harness

check:
	@test -z "$$(gofmt -l .)" || { echo "gofmt:"; gofmt -l .; exit 1; }
	go vet ./...
	go mod tidy -diff
	go run $(STATICCHECK) ./...
	go test ./...

# Regenerates the ONNX types from their definition; needs protoc.
generate:
	@mkdir -p .bin && GOBIN=$(CURDIR)/.bin go install $(PROTOC_GEN_GO)
	cd models/onnx/onnxpb && PATH="$(CURDIR)/.bin:$$PATH" protoc --go_out=. --go_opt=paths=source_relative selfheal_onnx.proto
	@rm -r .bin
