package onnxtest

import (
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	pb "selfheal/models/onnx/onnxpb"
)

// Sums is a classifier of images [3, 8, 8] in [0, 1] by sums of products of 8-bit integers. On grey images of 0.5 and
// of 0.95 int32 holds the sums. If every value is 1, a sum leaves int32 in ONNX Runtime, and the class changes.
type Sums struct {
	Name  string
	Data  []byte
	Label int // class of all other grey images
}

// The element types of quantised tensors.
const uint8Type, int8Type, int32Type = 2, 3, 6

func quantized(name string, kind int32, dims []int64, v ...int32) *pb.TensorProto {
	return &pb.TensorProto{Name: &name, DataType: &kind, Dims: dims, Int32Data: v}
}

// Overflowing returns such classifiers, one for each way that a file may contain such sums.
func Overflowing() (all []Sums) {
	const (
		values  = 192
		largest = values * 127 * 255 // largest sum of products
		repeats = 174                // number of values; their products by 255 leave int32 without a bias
	)
	upper := []int32{math.MaxInt32 - (largest - 1000), 1 << 30, 1 << 29} // the classes' biases
	lower := []int32{math.MinInt32 + (largest - 1000), -1 << 30, -1 << 29}
	// The other classes have no weights.
	weights := func(kind, v, zero int32, dims ...int64) *pb.TensorProto {
		w := slices.Repeat([]int32{zero}, 3*int(dims[1]*dims[2]*dims[3]))
		for i := range len(w) / 3 { // the middle of each kernel
			if middle := dims[2] * dims[3]; int64(i)%middle == middle/2 {
				w[i] = zero + v
			}
		}
		return quantized("w", kind, dims, w...)
	}
	// columns makes matrices, [values, 3].
	columns := func(kind int32, count int, v ...int32) *pb.TensorProto {
		return quantized("w", kind, []int64{int64(count), 3}, slices.Repeat(v, count)...)
	}
	scale, by := float32(1./255), float32(0.01)
	file := func(shape string, b []int32) File {
		f := New(17, -1, 3, 8, 8)
		f.OpsetImport = append(f.OpsetImport, &pb.OperatorSetIdProto{Domain: proto.String("com.microsoft"),
			Version: proto.Int64(1)})
		end, kind := float32(200), int32(uint8Type) // largest level of the output, and the type of its levels
		if b[0] < 0 {
			end, kind = 100, int8Type
		}
		return f.Floats("s", nil, scale).Floats("ws", nil, by).Floats("bs", nil, scale*by).
			Floats("r", nil, (1<<31)*scale*by/end).Floats("half", nil, (1<<31)*scale*by/2/end).
			Tensor(quantized("z", uint8Type, nil, 0)).Tensor(quantized("wz", int8Type, nil, 0)).
			Tensor(quantized("rz", kind, nil, 0)).Tensor(quantized("b", int32Type, []int64{3}, b...)).
			Node("shape=" + shape + "; Reshape x shape → flat")
	}
	add := func(name string, label int, f File, nodes string) {
		all = append(all, Sums{name, f.Node(nodes).Bytes(-1, 3), label})
	}
	image := func(b []int32) File { return file("0,192,1,1", b).Node("QuantizeLinear flat s z → q") }
	vector := func(b []int32) File { return file("0,192", b).Node("QuantizeLinear flat s z → q") }
	long := func() File {
		return file("0,192", upper).Node("times=1,174; Tile flat times → t; QuantizeLinear t s z → q")
	}
	const microsoft, out = "@com.microsoft", "; DequantizeLinear y8 r rz → d; Flatten d → y"
	signed, all1 := weights(int8Type, 127, 0, 3, values, 1, 1), columns(int8Type, values, 127, 0, 0)
	channels := func(f File) File {
		return f.Floats("cs", []int64{3}, by, by/2, by/4).Tensor(quantized("cz", int8Type, []int64{3}, 0, 0, 0))
	}
	perChannel := []int32{upper[0], 1 << 30, 1 << 30}
	byteColumns := columns(uint8Type, values*repeats, 255, 100, 50)

	add("QLinearConv", 0, image(upper).Tensor(signed), "QLinearConv q s z w ws wz r rz b → y8"+out)
	add("QLinearConv, lower end", 2, file("0,192,1,1", lower).Tensor(quantized("iz", int8Type, nil, -128)).
		Tensor(weights(int8Type, -127, 0, 3, values, 1, 1)),
		"QuantizeLinear flat s iz → q; QLinearConv q s iz w ws wz r rz b → y8"+out)
	add("QLinearConv, per channel", 0, channels(image(perChannel)).Tensor(signed),
		"QLinearConv q s z w cs cz r rz b → y8"+out)
	add("QLinearConv, zero points", 0, file("0,192,1,1", []int32{math.MaxInt32 - (values*127*252 - 1000), 1 << 30, 0}).
		Floats("s3", nil, 1./252).Tensor(quantized("z3", uint8Type, nil, 3)).
		Tensor(quantized("uz", uint8Type, nil, 100)).Tensor(weights(uint8Type, 127, 100, 3, values, 1, 1)),
		"QuantizeLinear flat s3 z3 → q; QLinearConv q s3 z3 w ws uz r rz b → y8"+out)
	add("QLinearConv, padded", 0, image(upper).Tensor(weights(int8Type, 127, 0, 3, values, 3, 3)),
		"QLinearConv q s z w ws wz r rz b → y8 pads=1,1,1,1"+out)
	add("QLinearConv, grouped", 0, image([]int32{math.MaxInt32 - (values/3*127*255 - 1000), 1 << 30, 1 << 29}).
		Tensor(weights(int8Type, 127, 0, 3, values/3, 1, 1)), "QLinearConv q s z w ws wz r rz b → y8 group=3"+out)
	add("QGemm", 0, vector(upper).Tensor(all1), "QGemm"+microsoft+" q s z w ws wz b half rz → y8 alpha=0.5; "+
		"DequantizeLinear y8 half rz → y")
	add("QGemm, floats", 0, vector(upper).Tensor(all1), "QGemm"+microsoft+" q s z w ws wz b → y")
	add("QLinearMatMul", 0, long().Tensor(byteColumns), "QLinearMatMul q s z w ws z r rz → y8; "+
		"DequantizeLinear y8 r rz → y")
	add("MatMulInteger", 0, long().Tensor(byteColumns), "MatMulInteger q w z z → i; Cast i → f to=1; Mul f bs → y")
	add("MatMulInteger and Add", 0, vector(upper).Tensor(all1),
		"MatMulInteger q w z wz → i; Add i b → j; Cast j → f to=1; Mul f bs → y")
	add("ConvInteger and Add", 0, image(upper).Tensor(signed).Node("column=1,3,1,1; Reshape b column → bc"),
		"ConvInteger q w z wz → i; Add bc i → j; Cast j → f to=1; Mul f bs → m; Flatten m → y")
	add("MatMulIntegerToFloat", 0, long().Tensor(byteColumns), "MatMulIntegerToFloat"+microsoft+" q w s ws z z → y")

	const given = "DequantizeLinear q s z → dq; DequantizeLinear w ws wz → dw; DequantizeLinear b bs → db; "
	const taken = "; QuantizeLinear c r rz → y8" + out
	add("QDQ Conv", 0, image(upper).Tensor(signed), given+"Conv dq dw db → c"+taken)
	add("QDQ Conv, a ReLU behind it", 0, image(upper).Tensor(signed), given+"Conv dq dw db → a; Relu a → c"+taken)
	add("QDQ Conv, per channel", 0, channels(image(perChannel)).Tensor(signed).
		Floats("bcs", []int64{3}, scale*by, scale*(by/2), scale*(by/4)),
		"DequantizeLinear q s z → dq; DequantizeLinear w cs cz → dw axis=0; DequantizeLinear b bcs → db axis=0; "+
			"Conv dq dw db → c"+taken)
	add("QDQ Conv behind a Reshape", 0, vector(upper).Tensor(signed), "DequantizeLinear q s z → dv; "+
		"image=0,192,1,1; Reshape dv image → dq; DequantizeLinear w ws wz → dw; DequantizeLinear b bs → db; "+
		"Conv dq dw db → c"+taken)
	add("QDQ Gemm", 0, vector(upper).Tensor(all1), given+"Gemm dq dw db → y")
	add("QDQ MatMul and Add", 0, vector(upper).Tensor(all1), given+"MatMul dq dw → m; Add m db → c; "+
		"QuantizeLinear c r rz → y8; DequantizeLinear y8 r rz → y")
	add("QDQ MatMul", 0, long().Tensor(byteColumns), "DequantizeLinear q s z → dq; DequantizeLinear w ws z → dw; "+
		"MatMul dq dw → y")
	return all
}
