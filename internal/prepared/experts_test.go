package prepared

import (
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// counted returns uses of 6 experts in layer 1 of 2, 2 by each of 100 tokens of two texts.
func counted() *neuron.Experts {
	x := neuron.NewExperts([]string{"a", "b"}, []int{0, 6}, 3)
	rng := rand.New(rand.NewPCG(1, 1))
	y := &x.Layers[1]
	for i := range 100 {
		text := i % 2
		x.Texts[text].Tokens++
		for _, e := range rng.Perm(6)[:2] {
			y.Uses[text][e]++
			y.Active[e][rng.IntN(3)]++
		}
	}
	x.Pairs[0], y.Again[0] = 98, 70
	return x
}

func expertFile(t *testing.T, keys []gguf.KV) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.gguf")
	if err := gguf.Create(t.Context(), path, "GGUF", keys, nil, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestExpertKeys(t *testing.T) {
	x, hash := counted(), strings.Repeat("0", 64)
	keys, err := ExpertKeys(x, hash)
	if err != nil {
		t.Fatal(err)
	}
	got, sha256, err := ReadExperts(expertFile(t, keys))
	if err != nil || sha256 != hash || !reflect.DeepEqual(got, x) {
		t.Fatalf("read %+v, %q, %v; wrote %+v", got, sha256, err, x)
	}
	if got, _, err := ReadExperts(expertFile(t, []gguf.KV{{Key: "a", Value: "b"}})); got != nil || err != nil {
		t.Errorf("a file without uses of experts: %v, %v", got, err)
	}
	if _, err := ExpertKeys(x, "0"); err == nil {
		t.Error("a hash that is none was accepted")
	}
	for want, c := range map[string]struct {
		key string
		v   any
	}{
		`version": 2 is not supported`:   {keyExpertVersion, uint32(2)},
		`version" is a string`:           {keyExpertVersion, "1"},
		`sha256": missing`:               {keyExpertSHA256, nil},
		`sha256": "x"`:                   {keyExpertSHA256, "x"},
		`texts": 1 names of texts and 2`: {keyExpertTexts, []string{"a"}},
		`tokens": it is []uint32`:        {keyExpertTokens, []uint32{1, 2}},
		`layers": 0 is outside`:          {keyExpertLayers, uint32(0)},
		`layers": 1000000 is outside`:    {keyExpertLayers, uint32(1e6)},
		`pairs of tokens at 1`:           {keyExpertPairs, []uint64{1}},
		`uses.1": 7 numbers for 2 texts`: {"powerinfer.experts.uses.1", make([]uint32, 7)},
		`uses.1": 1 numbers for 2 texts`: {"powerinfer.experts.uses.1", make([]uint32, 1)},
		`does not make`:                  {"powerinfer.experts.uses.1", []uint32{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		`again.1": missing`:              {"powerinfer.experts.again.1", nil},
		`were repeated`:                  {"powerinfer.experts.again.1", []uint64{1 << 40, 0, 0, 0, 0, 0, 0}},
		`active.1": 17 numbers for 6`:    {"powerinfer.experts.active.1", make([]uint32, 17)},
		`active.1": 0 numbers for 6`:     {"powerinfer.experts.active.1", []uint32{}},
	} {
		spoilt := []gguf.KV{}
		for _, kv := range keys {
			if kv.Key != c.key {
				spoilt = append(spoilt, kv)
			} else if c.v != nil {
				spoilt = append(spoilt, gguf.KV{Key: c.key, Value: c.v})
			}
		}
		f := expertFile(t, spoilt)
		if _, _, err := ReadExperts(f); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), f.Path) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
