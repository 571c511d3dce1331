// Package normalised knows the means and deviations by which images are usually normalised.
package normalised

import "math"

// By is a common way to normalise images.
type By struct {
	Of            string    // the data set with this mean and deviation
	Mean, Std     []float64 // for each channel
	Side, Classes int       // side and number of classes of that data set; 0: any
}

// Usual lists the usual ways. The second of CIFAR-10 has the mean of each image's own deviation, an old mistake.
var Usual = []By{
	{"ImageNet's", []float64{0.485, 0.456, 0.406}, []float64{0.229, 0.224, 0.225}, 0, 0},
	{"CIFAR-10's", []float64{0.4914, 0.4822, 0.4465}, []float64{0.2471, 0.2435, 0.2616}, 32, 10},
	{"CIFAR-10's", []float64{0.4914, 0.4822, 0.4465}, []float64{0.2023, 0.1994, 0.2010}, 32, 10},
	{"CIFAR-100's", []float64{0.5071, 0.4865, 0.4409}, []float64{0.2673, 0.2564, 0.2762}, 32, 100},
	{"MNIST's", []float64{0.1307}, []float64{0.3081}, 0, 0},
}

// Fits reports whether channels from low to high run from about black's value to at most white's.
func (n By) Fits(low, high []float64) bool {
	const near = 0.02
	ok := len(n.Mean) == len(low)
	for c := 0; c < len(low) && ok; c++ {
		black, white := -n.Mean[c]/n.Std[c], (1-n.Mean[c])/n.Std[c]
		ok = math.Abs(low[c]-black) < near && high[c] < white+near
	}
	return ok
}
