package imatrix

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func sample() *Matrix {
	m := New(512)
	m.Datasets, m.Chunks = []string{"tales.txt"}, 3
	m.Entries["blk.0.attn_q.weight"] = &Entry{Sums: []float32{3, 6, 0}, Counts: []int64{1536}}
	m.Entries["blk.0.ffn_up_exps.weight"] = &Entry{Sums: []float32{1, 2, 3, 4}, Counts: []int64{0, 1000}}
	return m
}

func TestForms(t *testing.T) {
	want := sample()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := want.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	got, err := Open(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	path = filepath.Join(t.TempDir(), "m.dat")
	if err := want.WriteOlder(path); err != nil {
		t.Fatal(err)
	}
	if got, err = Open(path); err != nil {
		t.Fatal(err)
	}
	// The older form has means times calls, and ones where an expert had no inputs.
	if got.Chunks != 3 || got.ChunkTokens != 0 || !slices.Equal(got.Datasets, want.Datasets) {
		t.Errorf("%+v", got)
	}
	for name, mean := range map[string][]float32{"blk.0.attn_q.weight": {3. / 1536, 6. / 1536, 0}, "blk.0.ffn_up_exps.weight": {1, 1, 0.003, 0.004}} {
		for _, m := range []*Matrix{want, got} {
			for i, v := range m.Entries[name].Mean() {
				if math.Abs(float64(v-mean[i])) > 1e-6 {
					t.Errorf("%s: means %v, want %v", name, m.Entries[name].Mean(), mean)
					break
				}
			}
		}
	}
}

// TestOlderFormByHand: bytes written out from the form's description.
func TestOlderFormByHand(t *testing.T) {
	b := older1()
	m, err := Parse("hand", b)
	if err != nil {
		t.Fatal(err)
	}
	e := m.Entries["a"]
	if e == nil || !slices.Equal(e.Mean(), []float32{2, 4}) || m.Chunks != 7 || !slices.Equal(m.Datasets, []string{"xy"}) {
		t.Errorf("%+v, %+v", m, e)
	}
	if m, err = Parse("hand", b[:len(b)-10]); err != nil || m.Chunks != 0 { // the end is optional
		t.Errorf("without its end: %+v, %v", m, err)
	}
	for n := range len(b) - 10 {
		if _, err := Parse("hand", b[:n]); err == nil || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "hand: ") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// older1 is a file of one entry: a, called twice, with the sums 4 and 8; seven chunks of xy.
func older1() []byte {
	var b bytes.Buffer
	for _, v := range []any{int32(1), int32(1), []byte("a"), int32(2), int32(2), float32(4), float32(8), int32(7), int32(2), []byte("xy")} {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func TestAdd(t *testing.T) {
	m := sample()
	if err := m.Add(sample()); err != nil {
		t.Fatal(err)
	}
	if e := m.Entries["blk.0.attn_q.weight"]; !slices.Equal(e.Sums, []float32{6, 12, 0}) || e.Counts[0] != 3072 || m.Chunks != 6 {
		t.Errorf("%+v of %d chunks", e, m.Chunks)
	}
	older, err := Parse("older", older1())
	if err != nil {
		t.Fatal(err)
	}
	m = New(512)
	if err := m.Add(older); err != nil {
		t.Fatal(err)
	}
	if e := m.Entries["a"]; !slices.Equal(e.Sums, []float32{4 * 512, 8 * 512}) || e.Counts[0] != 2*512 {
		t.Errorf("of the older form: %+v", e)
	}
	other := sample()
	other.Entries["blk.0.attn_q.weight"].Sums = []float32{1}
	if err := sample().Add(other); err == nil || !strings.Contains(err.Error(), "not of the same model") {
		t.Errorf("other sizes: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	for name, change := range map[string]func(m *Matrix){
		"negative": func(m *Matrix) { m.Entries["blk.0.attn_q.weight"].Sums[0] = -1 },
		"NaN":      func(m *Matrix) { m.Entries["blk.0.attn_q.weight"].Sums[1] = float32(math.NaN()) },
		"count":    func(m *Matrix) { m.Entries["blk.0.attn_q.weight"].Counts[0] = -5 },
		"empty":    func(m *Matrix) { clear(m.Entries) },
	} {
		m := sample()
		change(m)
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := m.Write(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(older1())
	path := filepath.Join(f.TempDir(), "m.gguf")
	if err := sample().Write(f.Context(), path); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse("fuzz", b)
		if err != nil {
			return
		}
		for _, name := range m.Names() {
			e := m.Entries[name]
			if len(e.Mean()) != len(e.Sums) {
				t.Errorf("%q: %d means of %d sums", name, len(e.Mean()), len(e.Sums))
			}
		}
		if err := New(512).Add(m); err != nil {
			t.Error(err)
		}
	})
}
