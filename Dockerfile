# The program and ONNX Runtime on a slim Debian, run by a user without rights:
#
#   docker build -t selfheal .
#   docker run --rm -v "$PWD:/work" selfheal attack model.onnx --data test.npz --norm linf --epsilon 8/255
FROM golang:1.26-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN go build -trimpath -ldflags="-s -w" -o /out/selfheal .
# The pinned library, verified, by the program's own way.
RUN XDG_CACHE_HOME=/cache /out/selfheal doctor && cp /cache/selfheal/onnxruntime/*/*/libonnxruntime.so /out/

FROM debian:bookworm-slim
RUN useradd --create-home selfheal
COPY --from=build /out/selfheal /usr/local/bin/
COPY --from=build /out/libonnxruntime.so /usr/local/lib/
ENV ONNXRUNTIME_SHARED_LIBRARY=/usr/local/lib/libonnxruntime.so
USER selfheal
WORKDIR /work
ENTRYPOINT ["selfheal"]
