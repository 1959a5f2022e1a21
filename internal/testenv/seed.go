package testenv

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Seed returns the seed that a test draws its random values from, and logs it. It is the same in every run, and another
// for each test's name. POWERINFER_SEED=random draws a new one, as nights do; a number is every test's seed, so that a
// failure can be repeated.
func Seed(t testing.TB) uint64 {
	t.Helper()
	var seed uint64
	switch wanted := os.Getenv("POWERINFER_SEED"); wanted {
	case "":
		h := fnv.New64a()
		io.WriteString(h, t.Name())
		seed = h.Sum64()
	case "random":
		seed = rand.Uint64()
	default:
		var err error
		if seed, err = strconv.ParseUint(wanted, 10, 64); err != nil {
			t.Fatalf(`POWERINFER_SEED=%q is neither "random" nor a number`, wanted)
		}
	}
	t.Logf("POWERINFER_SEED=%d", seed)
	return seed
}

// Rand returns random values from the test's Seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}
