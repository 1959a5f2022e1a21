package visiontest

import "hash/fnv"

// stream is a stream of random numbers that are computed by index. The numbers are integers until one rounded
// multiplication, so that every platform makes the same ones.
type stream uint64

// named returns the stream of a tensor or picture.
func named(name string) stream {
	h := fnv.New64a()
	h.Write([]byte(name))
	return stream(h.Sum64())
}

// bits returns the i-th output of splitmix64 (Steele, Lea and Flood 2014).
func (s stream) bits(i int) uint64 {
	x := uint64(s) + uint64(i+1)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// uniform returns the i-th number of mean 0 and variance 1, between ±√3.
func (s stream) uniform(i int) float32 {
	const half = 1 << 23
	return float32(int(s.bits(i)>>40)-half) * (1.7320508 / half)
}
