package open_test

import (
	"context"
	"fmt"

	"selfheal/harness/config"
	"selfheal/harness/open"
	"selfheal/models/ort"
)

// A service opens a network of a config under one of its controls and asks it for logits. Any number of goroutines may
// ask at once: their images go through the network in batches.
func ExampleUse() {
	ctx := context.Background()
	if err := ort.Init(ctx, ort.Options{}); err != nil { // finds ONNX Runtime, or fetches it
		fmt.Println(err)
		return
	}
	cfg, err := config.Load("../../config.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	healed, err := open.Use(ctx, cfg, "preact-robust", "greedy", open.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer healed.Close()
	images, err := healed.Set("shapes10", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, pixels, label, err := images.Image(0) // C·H·W values in [0,1]
	if err != nil {
		fmt.Println(err)
		return
	}
	logits, err := healed.Logits(ctx, pixels)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := healed.Loop.Run(ctx, pixels)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(logits), "logits; label", label)
	fmt.Printf("the controls' norm is above 0: %v\n", outcome.Norm > 0)
	// Output:
	// 10 logits; label 0
	// the controls' norm is above 0: true
}
