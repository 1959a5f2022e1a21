package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/disk"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// matrix is a tensor of random bytes.
func matrix(rng *rand.Rand, name string, t quant.Type, shape ...int) gguf.Source {
	b := make([]byte, t.RowBytes(shape[0])*shape[1])
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return gguf.Source{Name: name, Type: t, Shape: shape, Write: func(w io.Writer) error { _, err := w.Write(b); return err }}
}

// random writes a model of random bytes with this many layers and neurons, and returns its name.
func random(t testing.TB, dir string, seed uint64, layers, embd, ff int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	var tensors []gguf.Source
	for l := range layers {
		for _, name := range []string{"ffn_gate", "ffn_up", "ffn_down_t"} {
			tensors = append(tensors, matrix(rng, fmt.Sprintf("blk.%d.%s.weight", l, name), quant.Q4_0, embd, ff))
		}
	}
	path := filepath.Join(dir, "m.gguf")
	if err := gguf.Create(t.Context(), path, "GGUF", nil, tensors, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func opened(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func made(t testing.TB, model *gguf.File, path string, m Making) *File {
	t.Helper()
	f, err := Make(t.Context(), model, path, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// check compares every row of f with the model's tensors.
func check(t *testing.T, f *File, model *gguf.File, layer int, names [parts]string) {
	t.Helper()
	data, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	for p, name := range names {
		at := f.Part(layer, Part(p))
		if (at != nil) != (name != "") {
			t.Fatalf("layer %d: part %s: %v", layer, Part(p), at)
		}
		if at == nil {
			continue
		}
		w, first := model.Tensor(fmt.Sprintf("blk.%d.%s.weight", layer, strings.TrimSuffix(name, "+"))), 0
		n := at.Units
		if at.File.Path() != f.Path() || at.Stride%least != 0 || n != model.Tensor(fmt.Sprintf("blk.%d.ffn_down_t.weight", layer)).Rows() {
			t.Errorf("%+v", at)
		}
		if strings.HasSuffix(name, "+") {
			first = n
		}
		size := w.Type.RowBytes(w.Shape[0])
		for i := range n {
			row := data[at.Offset+int64(i)*at.Stride:][:size]
			if !bytes.Equal(row, w.Data[(first+i)*size:][:size]) {
				t.Fatalf("%s: row %d differs", name, i)
			}
			if err := at.Verify(i, row); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The names of the parts of neurons with gates, and without.
var (
	gated   = [parts]string{"ffn_gate", "ffn_up", "ffn_down_t"}
	ungated = [parts]string{Up: "ffn_up", Down: "ffn_down_t"}
)

// CheckRows compares the bundle of the model at path with the model, for tests of other packages.
func CheckRows(t *testing.T, path string, layers int, gates bool) {
	t.Helper()
	names := ungated
	if gates {
		names = gated
	}
	model := opened(t, path)
	f := made(t, model, path+Suffix, Making{piece: 20000})
	for l := range layers {
		check(t, f, model, l, names)
	}
	if g := opened(t, f.Path()); len(g.Tensors) != 6 || g.Alignment != 4096 { // a valid GGUF file
		t.Errorf("%d tensors, aligned to %d", len(g.Tensors), g.Alignment)
	}
}

// TestRows compares bundles with their models: parts of several types, gates and ups in one tensor, and a model in
// several files.
func TestRows(t *testing.T) {
	t.Run("mixed", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 1))
		dir := t.TempDir()
		list := []gguf.Part{{Path: filepath.Join(dir, "m-00001-of-00002.gguf")}, {Path: filepath.Join(dir, "m-00002-of-00002.gguf")}}
		for no := range list {
			list[no].Keys = []gguf.KV{{Key: "split.no", Value: uint16(no)}, {Key: "split.count", Value: uint16(2)}}
		}
		list[0].Tensors = []gguf.Source{matrix(rng, "blk.1.ffn_up.weight", quant.Q4_K, 512, 66), matrix(rng, "blk.3.ffn_down_t.weight", quant.Q8_0, 512, 20)}
		list[1].Tensors = []gguf.Source{matrix(rng, "blk.1.ffn_down_t.weight", quant.Q8_0, 512, 33), matrix(rng, "blk.3.ffn_up.weight", quant.F32, 512, 20), matrix(rng, "blk.2.ffn_up.weight", quant.F32, 512, 20)}
		if err := gguf.CreateParts(t.Context(), "GGUF", list, nil); err != nil {
			t.Fatal(err)
		}
		model := opened(t, list[0].Path)
		f := made(t, model, list[0].Path+Suffix, Making{})
		check(t, f, model, 1, [parts]string{"ffn_up", "ffn_up+", "ffn_down_t"})
		check(t, f, model, 3, ungated)
		if f.Part(2, Up) != nil {
			t.Error("a layer whose down projection does not lie by neuron")
		}
	})
	model := opened(t, func() string {
		path := filepath.Join(t.TempDir(), "m.gguf")
		err := gguf.Create(t.Context(), path, "GGUF", nil, []gguf.Source{matrix(rand.New(rand.NewPCG(1, 1)), "blk.0.ffn_up.weight", quant.F32, 8, 8)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}())
	if _, err := Make(t.Context(), model, model.Path+Suffix, Making{}); err == nil || !strings.Contains(err.Error(), "powerinfer prepare") {
		t.Error(err)
	}
}

// TestStride: neurons begin at multiples of 512 and touch no more blocks than they must, unless that would waste room.
func TestStride(t *testing.T) {
	for n := int64(1); n < 5*block; n++ {
		stride := strideOf(n)
		if stride < n || stride%least != 0 || stride-n > max(n/4, least-1) {
			t.Fatalf("%d bytes: stride %d", n, stride)
		}
		most := int64(0)
		for i := range int64(block / least) {
			most = max(most, (i*stride+n-1)/block-i*stride/block+1)
		}
		if fewest := (n + block - 1) / block; most > fewest+1 || most > fewest && (n+block-1)/block*block-n <= n/4 {
			t.Fatalf("%d bytes: stride %d: a neuron touches %d blocks", n, stride, most)
		}
	}
	for n, want := range map[int64]int64{300: 512, 1100: 1536, 6912: 8192, 8640: 8704, 12288: 12288} {
		if got := strideOf(n); got != want {
			t.Errorf("%d bytes: stride %d, not %d", n, got, want)
		}
	}
}

// TestDamaged: a file of another model is refused, and so is a damaged row.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	model := opened(t, random(t, dir, 1, 2, 64, 40))
	path := model.Path + Suffix
	f := made(t, model, path, Making{})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	y, err := layoutOf(model)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var other *errOther
		if _, err := Open(path, model); !errors.As(err, &other) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range len(y.head) {
		if i > 600 && i%97 != 0 {
			continue
		}
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		refused(fmt.Sprintf("byte %d", i), b)
	}
	for _, n := range []int{0, 1, 100, len(y.head), len(whole) - 1} {
		refused(fmt.Sprintf("%d bytes", n), whole[:n])
	}
	refused("longer", append(bytes.Clone(whole), 0))
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	other := opened(t, random(t, t.TempDir(), 2, 2, 64, 40))
	if _, err := Open(path, other); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Error(err)
	}

	at := f.Part(1, Up)
	offset := at.Offset + 7*at.Stride
	row := whole[offset:][:36]
	row[5] ^= 4
	if err := at.Verify(7, row); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprint("offset ", offset)) || !strings.Contains(err.Error(), "delete") {
		t.Error(err)
	}
	row[5] ^= 4
	if err := at.Verify(7, row); err != nil {
		t.Error(err)
	}
	if err := at.From(5, 30).Verify(2, row); err != nil {
		t.Error(err)
	}
}

// TestStopped: a cancelled call leaves a part, with which the next one continues.
func TestStopped(t *testing.T) {
	model := opened(t, random(t, t.TempDir(), 1, 4, 128, 500))
	path := model.Path + Suffix
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Make(ctx, model, path, Making{piece: 20000, Progress: func(done, total int64) {
		if done > total*5/8 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("it has its name")
	}
	rest := int64(0)
	f := made(t, model, path, Making{piece: 20000, Progress: func(done, total int64) {
		rest = total
		if done > total {
			t.Errorf("%d of %d bytes", done, total)
		}
	}})
	if part := float64(rest) / float64(f.file.Size()); part < 0.4 || part > 0.6 {
		t.Errorf("it wrote %g of the file again", part)
	}
	for l := range 4 {
		check(t, f, model, l, [parts]string{"ffn_gate", "ffn_up", "ffn_down_t"})
	}
	only(t, filepath.Dir(path), "m.gguf", "m.gguf.neurons")

	os.Remove(path)
	ctx, cancel = context.WithCancel(t.Context())
	if _, err := Make(ctx, model, path, Making{Progress: func(int64, int64) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	only(t, filepath.Dir(path), "m.gguf")
}

// only fails if a folder has other files.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	if fmt.Sprint(all) != fmt.Sprint(names) {
		t.Fatalf("%s has %v, not %v", dir, all, names)
	}
}

// TestTogether: if several processes want the file, one makes it. The others wait, say so, and use it.
func TestTogether(t *testing.T) {
	model := opened(t, random(t, t.TempDir(), 1, 2, 64, 64))
	path := model.Path + Suffix
	holder := &part{y: &layout{}, path: path + partSuffix}
	if _, err := holder.open(); err != nil || holder.file == nil {
		t.Fatal(err)
	}
	const waiting = 3
	notices, ends := make(chan string, waiting), make(chan error, waiting)
	for range waiting {
		go func() {
			f, err := Make(t.Context(), model, path, Making{Notice: func(s string) { notices <- s }})
			if err == nil {
				err = f.Close()
			}
			ends <- err
		}()
	}
	for range waiting {
		if s := <-notices; !strings.Contains(s, path) {
			t.Error(s)
		}
	}
	holder.close() // as if it was killed
	for range waiting {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	f, err := Open(path, model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	check(t, f, model, 1, [parts]string{"ffn_gate", "ffn_up", "ffn_down_t"})
	only(t, filepath.Dir(path), "m.gguf", "m.gguf.neurons")
}

// TestReplaced: a bundle of another model is made again. Foreign files and parts stay.
func TestReplaced(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("LocalAppData", cache)
	t.Setenv("HOME", cache)
	for seed := range uint64(2) {
		path := random(t, dir, seed, 2, 64, 64)
		model := opened(t, path)
		for range 2 {
			f, err := For(t.Context(), model, Making{})
			if err != nil {
				t.Fatal(err)
			}
			check(t, f, model, 1, [parts]string{"ffn_gate", "ffn_up", "ffn_down_t"})
			f.Close()
			only(t, dir, "m.gguf", "m.gguf.neurons")
		}
	}
	model := opened(t, filepath.Join(dir, "m.gguf"))
	for _, name := range []string{"m.gguf.neurons", "m.gguf.neurons.part"} {
		os.Remove(filepath.Join(dir, "m.gguf.neurons"))
		mine := filepath.Join(dir, name)
		if err := os.WriteFile(mine, []byte("Tuesday: a long walk"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := For(t.Context(), model, Making{})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(f.Path(), dir) {
			t.Errorf("it was written to %s", f.Path())
		}
		check(t, f, model, 1, [parts]string{"ffn_gate", "ffn_up", "ffn_down_t"})
		f.Close()
		if b, err := os.ReadFile(mine); err != nil || string(b) != "Tuesday: a long walk" {
			t.Error("a foreign file was changed")
		}
		os.Remove(f.Path())
	}
}

// TestChangedModel: a model that is replaced while its neurons are read leaves no bundle.
func TestChangedModel(t *testing.T) {
	path := random(t, t.TempDir(), 1, 3, 64, 64)
	model := opened(t, path)
	again := false
	_, err := Make(t.Context(), model, path+Suffix, Making{Progress: func(done, total int64) {
		if !again {
			again = true
			random(t, filepath.Dir(path), 2, 3, 64, 64)
		}
	}})
	if !errors.Is(err, disk.ErrChanged) {
		t.Error(err)
	}
	only(t, filepath.Dir(path), "m.gguf")
}

// TestNoRoom: missing space is an error before anything is written.
func TestNoRoom(t *testing.T) {
	w := &writer{y: &layout{size: 1 << 60}, part: &part{path: filepath.Join(t.TempDir(), "p")}}
	if err := w.room(); !errors.Is(err, errRoom) || !strings.Contains(err.Error(), "GiB free") {
		t.Error(err)
	}
}

// TestRename: a part that others look at gets its name once they close it, or because one of them renamed it. If one
// never closes it, renaming fails.
func TestRename(t *testing.T) {
	dir := t.TempDir()
	model := opened(t, random(t, dir, 1, 1, 256, 32))
	y, err := guarded(model)
	if err != nil {
		t.Fatal(err)
	}
	made(t, model, filepath.Join(dir, "made"), Making{}).Close()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "name")
		p := &part{y: y, path: filepath.Join(dir, "made")}
		if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := p.rename(path, false); err == nil {
			t.Error("it was renamed where it cannot be")
		}
		if err := p.rename(path, true); err == nil {
			t.Error("it was renamed where it can never be")
		}
		go func() {
			time.Sleep(patience)
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}()
		for range 2 { // the second time it is there
			if err := p.rename(path, true); err != nil {
				t.Error(err)
			}
		}
	})
}
