package bounds

import (
	"context"
	"math"
	"os"
	"testing"

	"selfheal/internal/must"
	"selfheal/internal/testinput"
	"selfheal/models/onnx/simplify"
)

// An image of ResNet-2B at 1/255, on one thread.
func BenchmarkResNet2B(b *testing.B) {
	testinput.Runtime(b)
	o := simplify.Options{Mean: []float32{0.4914, 0.4822, 0.4465}, Std: []float32{0.2471, 0.2435, 0.2616}}
	g, _ := must.Get2(simplify.Load(testinput.Real(b, "resnet_2b.onnx"), o))(b)
	records := must.Get(os.ReadFile(testinput.Real(b, "cifar10-test-1000.bin")))(b)
	n := must.Get(New(g, Unit))(b)
	defer n.Close()
	for _, method := range []Method{IBP, CROWN, AlphaCROWN} {
		b.Run(string(method), func(b *testing.B) {
			image := 0
			for b.Loop() {
				x := make([]float32, 3072)
				for j := range x {
					x[j] = float32(records[3073*image+1+j]) / 255
				}
				region := Ball(x, math.Inf(1), 1./255, 0, 1)
				must.Get(n.Margins(context.Background(), method, region, int(records[3073*image])))(b)
				image = (image + 1) % 8
			}
		})
	}
}
