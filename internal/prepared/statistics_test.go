package prepared

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

func TestStatisticsFile(t *testing.T) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	s := &neuron.Stats{Tokens: 9, Layers: [][]uint32{{1, 9, 0}, {2, 3}}, Mass: [][]float32{{0.5, 1, 0}, {3, 4}}}
	path := filepath.Join(t.TempDir(), "s.gguf")
	for range 2 {
		if err := WriteStats(path, f, strings.Repeat("0", 64), s); err != nil {
			t.Fatal(err)
		}
		got, err := readStats(path)
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("read %+v, %v; wrote %+v", got, err, s)
		}
		s.Mass = nil
	}
}

func TestStatisticsRefused(t *testing.T) {
	dir := t.TempDir()
	base := map[string]any{keyProfileVersion: uint32(1), keyProfileTokens: uint64(5), keyProfileLayers: uint32(1), "powerinfer.profile.count.0": []uint32{1, 2}}
	for name, c := range map[string]struct {
		key  string
		v    any
		want string
	}{
		"other file":   {keyProfileVersion, nil, "holds no statistics of neurons; powerinfer profile makes them"},
		"version":      {keyProfileVersion, uint32(2), `"powerinfer.profile.version": 2 is not supported`},
		"many layers":  {keyProfileLayers, uint32(1 << 20), "not a number from 1 to 4096"},
		"no layers":    {keyProfileLayers, nil, "not a number from 1"},
		"layers":       {keyProfileLayers, uint32(2), `"powerinfer.profile.count.1" is missing`},
		"tokens":       {keyProfileTokens, nil, `"powerinfer.profile.tokens" is missing`},
		"few tokens":   {keyProfileTokens, uint64(1), "active for 2 of 1 tokens"},
		"count's type": {"powerinfer.profile.count.0", []float32{1}, "no array of u32"},
		"mass's type":  {"powerinfer.profile.mass.0", []string{"a"}, "not an array of numbers"},
		"mass's width": {"powerinfer.profile.mass.0", []float32{1}, "1 masses beside 2 counts"},
	} {
		var keys []gguf.KV
		for k, v := range base {
			if k != c.key {
				keys = append(keys, gguf.KV{Key: k, Value: v})
			}
		}
		if c.v != nil {
			keys = append(keys, gguf.KV{Key: c.key, Value: c.v})
		}
		path := filepath.Join(dir, "s.gguf")
		if err := gguf.Create(t.Context(), path, "GGUF", keys, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := readStats(path); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// readStats reads a file of WriteStats.
func readStats(path string) (*neuron.Stats, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, ok, err := ReadStats(f)
	if err == nil && !ok {
		err = fmt.Errorf("%s holds no statistics of neurons; powerinfer profile makes them", path)
	}
	return s, err
}
