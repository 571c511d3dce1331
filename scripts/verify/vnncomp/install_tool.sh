#!/bin/sh
# Builds selfheal and fetches ONNX Runtime, as the neural-network verification competition asks: install_tool.sh v1
set -eu
[ "${1:-}" = v1 ] || { echo "usage: $0 v1" >&2; exit 1; }
cd "$(dirname "$0")/../../.."
if ! command -v go >/dev/null 2>&1; then
  version=$(sed -n 's/^go //p' go.mod)
  curl -fsSL "https://go.dev/dl/go$version.linux-$(dpkg --print-architecture).tar.gz" | tar -xz -C /usr/local
  PATH=$PATH:/usr/local/go/bin
fi
command -v cc >/dev/null 2>&1 || apt-get install -y -qq gcc libc6-dev
command -v npm >/dev/null 2>&1 || command -v pip3 >/dev/null 2>&1 || apt-get install -y -qq python3-pip
go build -o selfheal .
./selfheal version
