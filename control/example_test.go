package control_test

import (
	"context"
	"fmt"
	"os"

	"selfheal/attacks"
	"selfheal/control"
	"selfheal/harness/dataset"
	"selfheal/models/ort"
)

// An ONNX file is opened with its gradient and attacked, as a Go test of a classifier would.
func ExampleNewNetwork() {
	ctx := context.Background()
	if err := ort.Init(ctx, ort.Options{}); err != nil { // finds ONNX Runtime, or fetches it
		fmt.Println(err)
		return
	}
	pool := ort.NewPool(0, 0) // all cores, up to 64 images in a pass
	defer pool.Close()
	model, err := os.ReadFile("../models/zoo/preact_robust.onnx")
	if err != nil {
		fmt.Println(err)
		return
	}
	network, err := control.NewNetwork(pool, "preact-robust", model, control.NetworkOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer network.Close()
	images, err := dataset.Open(dataset.Spec{Format: "cifar10-bin", Path: "test.bin"},
		os.DirFS("../models/zoo/shapes10"), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer images.Close()
	id, pixels, label, err := images.Image(0)
	if err != nil {
		fmt.Println(err)
		return
	}

	var e attacks.Evaluation // logits, loss and ∂loss/∂pixels, in one run
	if err := network.Gradient(ctx, pixels, attacks.CrossEntropy, label, 0, &e); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("right:", attacks.Right(e.Logits, label), "gradient of", len(e.Gradient), "values")

	for _, epsilon := range []float64{1. / 255, 32. / 255} {
		pgd, err := attacks.Setup{Kind: "pgd", Norm: attacks.Linf}.Make(epsilon, network.Classes())
		if err != nil {
			fmt.Println(err)
			return
		}
		image := attacks.Image{ID: id, Pixels: pixels, Label: label}
		result, err := pgd.Components[0].Perturb(ctx, network, image, attacks.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("PGD within %.0f/255 breaks it: %v\n", 255*epsilon, result.Adversarial != nil)
	}
	// Output:
	// right: true gradient of 3072 values
	// PGD within 1/255 breaks it: false
	// PGD within 32/255 breaks it: true
}
