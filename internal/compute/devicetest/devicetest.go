// Package devicetest holds every device to the scalar one: one suite of small scripts over all verbs, shapes and types.
//
// A script is played on the device under test and on package ref with the same numbers, and compared within tolerances
// that have a reason. It is then played with only some of its tokens, and with weights that stay where they are mapped: both
// must give the same bytes as before.
package devicetest

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
)

// seed makes every script's numbers, together with its name.
const seed = 20

// script is one case. It draws its numbers from the stage, so that they are the same on every device.
type script struct {
	name   string // verb/…; the first two parts name its group
	tokens int    // of the step
	whole  bool   // its rows are not tokens: it cannot be played with some of them
	play   func(s *stage)
}

func (sc *script) group() string {
	parts := strings.SplitN(sc.name, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

func scripts() []script {
	return slices.Concat(matMulScripts(), rowScripts(), ropeScripts(), attentionScripts(), predictScripts(), sparseScripts())
}

// groups are the scripts by their verb and first variant. A group is played on one device, so that what a verb leaves
// behind meets the next one.
func groups() (names []string, by map[string][]script) {
	by = map[string][]script{}
	for _, sc := range scripts() {
		g := sc.group()
		if by[g] == nil {
			names = append(names, g)
		}
		by[g] = append(by[g], sc)
	}
	return names, by
}

// Run holds the devices that each open returns to the scalar one. Run closes them.
func Run(t *testing.T, opens ...func(t *testing.T) compute.Device) {
	names, by := groups()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			reference := subject{ref.New(), map[string]any{}}
			devices := opened(t, opens)
			for _, sc := range by[name] {
				m := &material{}
				want, err := sc.on(t, reference, m, everyone(sc.tokens), false)
				if err != nil {
					t.Fatalf("%s on the scalar device: %v", sc.name, err)
				}
				for _, dev := range devices {
					if err := sc.verify(t, dev, m, want); err != nil {
						t.Errorf("%s, seed %d: %s: %v", dev.Name(), seed, sc.name, err)
					}
				}
			}
		})
	}
	t.Run("Refusals", func(t *testing.T) {
		for _, dev := range opened(t, opens) {
			refusals(t, dev)
		}
	})
}

// Same holds the devices that each open returns to the same bytes as the first: ones that differ only in their threads, say.
func Same(t *testing.T, opens ...func(t *testing.T) compute.Device) {
	names, by := groups()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			devices := opened(t, opens)
			for _, sc := range by[name] {
				m, all := &material{}, everyone(sc.tokens)
				want, err := sc.on(t, devices[0], m, all, false)
				for _, dev := range devices[1:] {
					var got []output
					if err == nil {
						got, err = sc.on(t, dev, m, all, false)
					}
					if err == nil {
						err = sc.sameBytes(got, want, all)
					}
					if err != nil {
						t.Errorf("%s is not as %s, seed %d: %s: %v", dev.Name(), devices[0].Name(), seed, sc.name, err)
					}
				}
			}
		})
	}
}

// subject is a device and what scripts prepared on it for those that follow.
type subject struct {
	compute.Device
	prepared map[string]any
}

func opened(t *testing.T, opens []func(t *testing.T) compute.Device) (all []subject) {
	t.Helper()
	for _, open := range opens {
		dev := open(t)
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, subject{dev, map[string]any{}})
	}
	return all
}

// verify plays sc in all its ways.
func (sc *script) verify(t testing.TB, dev subject, m *material, want []output) error {
	t.Helper()
	all := everyone(sc.tokens)
	got, err := sc.on(t, dev, m, all, false)
	if err != nil {
		return err
	}
	if err := compare(got, want); err != nil {
		return err
	}
	pinned, err := sc.on(t, dev, m, all, true)
	if err == nil {
		err = sc.sameBytes(pinned, got, all)
	}
	if err != nil {
		return fmt.Errorf("with pinned weights: %w", err)
	}
	if sc.whole {
		return nil
	}
	for _, some := range companies(sc.tokens) {
		less, err := sc.on(t, dev, m, some, false)
		if err == nil {
			err = sc.sameBytes(less, got, some)
		}
		if err != nil {
			return fmt.Errorf("a step of tokens %v of %d: %w", some, sc.tokens, err)
		}
	}
	return nil
}

func everyone(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// companies are steps with only some of n tokens: each alone of a few, one of many; two apart; the first nine.
func companies(n int) (c [][]int32) {
	if n > 2 {
		c = append(c, []int32{0, int32(n / 2)})
	}
	if n > 12 {
		return append(c, []int32{int32(n - 1)}, everyone(9))
	}
	for i := range n {
		if n > 1 {
			c = append(c, []int32{int32(i)})
		}
	}
	return c
}

// on plays sc on dev with some of its tokens.
func (sc *script) on(t testing.TB, dev subject, m *material, step []int32, pinned bool) ([]output, error) {
	t.Helper()
	m.rewind()
	s := &stage{t: t, dev: dev, rng: numbers(sc.name), material: m, name: sc.name, all: sc.tokens, step: step, pinned: pinned}
	sc.play(s)
	return s.kept, s.untouched()
}

// numbers are random, and the same for the same name.
func numbers(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// compare holds got to want within each output's bounds.
func compare(got, want []output) error {
	for i, w := range want {
		for r, row := range w.rows {
			bounds := make([]float64, len(row))
			w.bound(bounds, row, r)
			for c, v := range row {
				g := got[i].rows[r][c]
				if e := math.Abs(float64(g) - float64(v)); !(e <= bounds[c]) {
					return fmt.Errorf("%s row %d column %d of %d×%d is %g, want %g within %.3g", w.label, r, c, len(w.rows), len(row), g, v, bounds[c])
				}
			}
		}
	}
	return nil
}

// sameBytes holds the rows of got, which belong to the tokens of step, to the same tokens' rows of want.
func (sc *script) sameBytes(got, want []output, step []int32) error {
	for i, w := range want {
		if w.total && len(step) < sc.tokens {
			continue
		}
		for r, row := range got[i].rows {
			from := r
			if !sc.whole && !w.total {
				from = int(step[r])
			}
			for c, v := range row {
				if math.Float32bits(v) != math.Float32bits(w.rows[from][c]) {
					return fmt.Errorf("%s row %d column %d is %g (%#x), and was %g (%#x)", w.label, from, c, v, math.Float32bits(v), w.rows[from][c], math.Float32bits(w.rows[from][c]))
				}
			}
		}
	}
	return nil
}
