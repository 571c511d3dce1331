package onnxtest_test

import (
	"testing"

	"selfheal/internal/testinput"
	"selfheal/models/onnx"
)

const N = onnx.Batch

func TestMain(m *testing.M) { testinput.RunMain(m) }
