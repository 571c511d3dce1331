package bounds

import (
	"context"
	"testing"

	"selfheal/internal/must"
)

// An image of ResNet-2B at 1/255, on one thread.
func BenchmarkResNet2B(b *testing.B) {
	n, image := resNet2B(b), realImages(b)
	for _, method := range []Method{IBP, CROWN, AlphaCROWN} {
		b.Run(string(method), func(b *testing.B) {
			i := 0
			for b.Loop() {
				x, label := image(i % 8)
				must.Get(n.Margins(context.Background(), method, Ball(x, inf, 1./255, 0, 1), label, nil))(b)
				i++
			}
		})
	}
}
