// Command selfheal measures how robust an ONNX image classifier is, and heals it while it runs.
package main

import (
	"embed"
	"os"

	"selfheal/internal/cli"
)

// files hold all that works without a checkout: the default config with what its suites need, and the JSON Schemas.
//
//go:embed config.yaml models/zoo/*.onnx models/zoo/shapes10/* docs/schema/*.schema.json
var files embed.FS

func main() { os.Exit(cli.Main(files)) }
