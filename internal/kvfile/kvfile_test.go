package kvfile_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/kvfile"
)

// sample is a file of this many tokens, and its pages.
func sample(t testing.TB, tokens int) (data []byte, h kvfile.Header, pages [][][]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(tokens)))
	h = kvfile.Header{
		Name: "a model", Model: kvfile.Digest{1, 2}, Arithmetic: kvfile.Digest{3},
		Layers:   []compute.KVShape{{Heads: 2, Key: 4, Value: 2}, {Heads: 1, Key: 2, Value: 6, ValueType: compute.KVBF16}, {Heads: 1, Key: 6, Value: 4, Within: true}, {Heads: 1, Key: 32, Value: 64, KeyType: compute.KVQ8_0, ValueType: compute.KVQ4_0}, {Key: 8, Value: 8}},
		Windowed: []bool{false, true, false, false, false}, Near: tokens / 2 / compute.PagePositions,
	}
	for range tokens {
		l := kvcache.LabelOf(rng.Int32N(1000), rng.IntN(2) == 0)
		if rng.IntN(2) == 0 {
			l = l.Foreign()
		}
		h.Labels = append(h.Labels, l)
	}
	var b bytes.Buffer
	w, err := kvfile.NewWriter(&b, &h)
	for i := 0; err == nil && i < h.Pages(); i++ {
		page := h.NewPage(i)
		for _, l := range page {
			for k := range l {
				l[k] = byte(rng.Uint32())
			}
		}
		pages = append(pages, page)
		err = w.Page(page)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), h, pages
}

// read reads a whole file.
func read(data []byte) (h kvfile.Header, pages [][][]byte, err error) {
	r, err := kvfile.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return h, nil, err
	}
	for i := range r.Pages() {
		page := r.NewPage(i)
		if err := r.Next(page); err != nil {
			return h, nil, err
		}
		pages = append(pages, page)
	}
	return r.Header, pages, nil
}

func TestRoundTrip(t *testing.T) {
	for _, tokens := range []int{1, 63, 64, 65, 200} {
		data, h, pages := sample(t, tokens)
		if h.Bytes() != int64(len(data)) {
			t.Errorf("%d tokens: %d bytes were written, and %d are foretold", tokens, len(data), h.Bytes())
		}
		gotHeader, gotPages, err := read(data)
		if err != nil || !reflect.DeepEqual(gotHeader, h) || !reflect.DeepEqual(gotPages, pages) {
			t.Errorf("%d tokens: what is read is not what was written (%v)", tokens, err)
		}
	}
}

// TestDamage: every changed byte, every cut and every additional byte is detected.
func TestDamage(t *testing.T) {
	data, _, _ := sample(t, 70)
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1 << (i % 8)
		if _, _, err := read(damaged); err == nil {
			t.Errorf("byte %d was changed, and nobody noticed", i)
		}
		if _, _, err := read(data[:i]); err == nil {
			t.Errorf("the file was cut at byte %d, and nobody noticed", i)
		}
	}
	if _, _, err := read(append(bytes.Clone(data), 0)); err == nil {
		t.Error("a byte was added, and nobody noticed")
	}
	if _, err := kvfile.NewReader(io.LimitReader(bytes.NewReader(data), 200), int64(len(data))); err == nil {
		t.Error("the file shrank while it was read, and nobody noticed")
	}
}

func FuzzReader(f *testing.F) {
	for _, tokens := range []int{1, 70} {
		data, _, _ := sample(f, tokens)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, pages, err := read(data)
		if err == nil && (len(h.Labels) == 0 || len(pages) != h.Pages() || h.Bytes() != int64(len(data))) {
			t.Errorf("a file of %d tokens and %d pages was accepted", len(h.Labels), len(pages))
		}
	})
}
