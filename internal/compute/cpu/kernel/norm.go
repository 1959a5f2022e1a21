package kernel

import "math"

func rmsNorm(dst, x, weight []float32, eps float32) {
	sum := 0.0
	for _, e := range x {
		sum += float64(e) * float64(e)
	}
	s := float32(1 / math.Sqrt(sum/float64(len(x))+float64(eps)))
	weight, dst = weight[:len(x)], dst[:len(x)]
	for i, e := range x {
		dst[i] = e * s * weight[i]
	}
}

func layerNorm(dst, x, weight, bias []float32, eps float32) {
	sum := 0.0
	for _, e := range x {
		sum += float64(e)
	}
	mean := sum / float64(len(x))
	sum = 0
	for _, e := range x {
		d := float64(e) - mean
		sum += d * d
	}
	m, s := float32(mean), float32(1/math.Sqrt(sum/float64(len(x))+float64(eps)))
	weight, dst = weight[:len(x)], dst[:len(x)]
	for i, e := range x {
		dst[i] = (e - m) * s * weight[i]
	}
	if bias != nil {
		add(dst, bias)
	}
}
