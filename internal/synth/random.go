package synth

// key names a stream of random numbers that are computed by index: any part of a tensor can be made by any thread, in
// any order, and is always the same. The numbers are integers until one rounded multiplication, so that every platform
// makes the same bytes.
type key uint64

// golden is 2^64 divided by the golden ratio, splitmix64's increment.
const golden = 0x9E3779B97F4A7C15

// mix returns splitmix64's output function (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// sub returns the i-th stream below k.
func (k key) sub(i int) key { return key(mix(uint64(k) ^ mix(uint64(i)+golden))) }

// named returns the stream of a tensor.
func (k key) named(name string) key {
	for _, c := range []byte(name) {
		k = k.sub(int(c))
	}
	return k
}

func (k key) bits(i int) uint64 { return mix(uint64(k) + uint64(i+1)*golden) }

// normal returns the i-th number of mean 0 and variance 1: a sum of four uniform ones, near enough to Gaussian where
// many are added, and never beyond ±3.47.
func (k key) normal(i int) float32 {
	const deviation = 37837.2 // √(4·(2^32-1)/12)
	x := k.bits(i)
	sum := int(x&0xFFFF) + int(x>>16&0xFFFF) + int(x>>32&0xFFFF) + int(x>>48)
	return float32(sum-2*0xFFFF) * (1 / deviation)
}

// permutation returns a random order of 0…n-1.
func (k key) permutation(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := int(k.bits(i) % uint64(i+1))
		p[i], p[j] = p[j], p[i]
	}
	return p
}
