package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Checkpoint holds a folder's weights: one safetensors file or several with an index, or the same in PyTorch's form.
type Checkpoint struct {
	Path    string             // the file or index that names the tensors, for messages
	Tensors map[string]*Tensor // by name
	files   []*os.File
}

// Open reads which tensors the folder dir holds; their elements are read later. Errors name the file and the tensor,
// key or offset.
func Open(dir string) (_ *Checkpoint, err error) {
	c := &Checkpoint{Path: filepath.Join(dir, "model.safetensors"), Tensors: map[string]*Tensor{}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if _, err := os.Stat(c.Path); err == nil {
		return c, c.openShard(c.Path)
	}
	found := false
	for _, name := range []string{"model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json", consolidated, consolidated + ".index.json"} {
		c.Path = filepath.Join(dir, name)
		if found = Exists(c.Path); found {
			break
		}
	}
	switch {
	case !found:
		return nil, fmt.Errorf("%s: no model.safetensors and no model.safetensors.index.json in it; name a Hugging Face model folder", dir)
	case strings.HasSuffix(c.Path, ".bin"), strings.HasSuffix(c.Path, consolidated):
		return c, c.openShard(c.Path)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := ReadJSON(c.Path, &index); err != nil {
		return nil, err
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: key %q is missing or empty", c.Path, "weight_map")
	}
	names := map[string]bool{}
	for name, file := range index.WeightMap {
		// A shard is next to its index; paths elsewhere are not followed.
		if filepath.Base(file) != file || !filepath.IsLocal(file) || strings.ContainsAny(file, `/\`) {
			return nil, fmt.Errorf("%s: tensor %q: %q is not a file name in this folder", c.Path, name, file)
		}
		names[file] = true
	}
	for _, file := range slices.Sorted(maps.Keys(names)) {
		if err := c.openShard(filepath.Join(dir, file)); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(index.WeightMap)) {
		t, want := c.Tensors[name], filepath.Join(dir, index.WeightMap[name])
		if t == nil || t.Path() != want {
			return nil, fmt.Errorf("%s: tensor %q is not in %s", c.Path, name, want)
		}
	}
	return c, nil
}

// consolidated is the file of weights of folders in Mistral's own form.
const consolidated = "consolidated.safetensors"

// Consolidated reports whether the weights are in Mistral's own form.
func (c *Checkpoint) Consolidated() bool {
	return strings.HasPrefix(filepath.Base(c.Path), consolidated)
}

// OpenAdapter is Open for the folder of an adapter as PEFT saves it.
func OpenAdapter(dir string) (*Checkpoint, error) {
	c := &Checkpoint{Path: filepath.Join(dir, "adapter_model.safetensors"), Tensors: map[string]*Tensor{}}
	if !Exists(c.Path) {
		c.Path = filepath.Join(dir, "adapter_model.bin")
	}
	if err := c.openShard(c.Path); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Checkpoint) openShard(path string) error {
	if strings.HasSuffix(path, ".bin") {
		return c.OpenTorch(path)
	}
	size, err := regular(path)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, f)
	tensors, err := readHeader(&shard{path: path, r: f}, size)
	if err != nil {
		return err
	}
	for i := range tensors {
		if err := c.add(&tensors[i]); err != nil {
			return err
		}
	}
	return nil
}

// OpenTorch adds a state dict that torch.save has written.
func (c *Checkpoint) OpenTorch(path string) error {
	t, err := OpenTorch(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, t.file)
	tensors, err := t.StateDict()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		if err := c.add(tensors[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checkpoint) add(t *Tensor) error {
	if other := c.Tensors[t.Name]; other != nil {
		return fmt.Errorf("%s: tensor %q is also in %s", t.Path(), t.Name, other.Path())
	}
	c.Tensors[t.Name] = t
	return nil
}

// Attach adds tensors of another file, which c closes from now on.
func (c *Checkpoint) Attach(t *Torch, tensors map[string]*Tensor) {
	c.files = append(c.files, t.file)
	maps.Copy(c.Tensors, tensors)
}

// Close closes the files; no tensor can be read afterwards.
func (c *Checkpoint) Close() {
	for _, f := range c.files {
		f.Close()
	}
}

// Reshaped returns t with another shape of as many elements.
func (t *Tensor) Reshaped(shape []int) *Tensor {
	r := *t
	r.Shape = shape
	return &r
}

// Surplus returns the tensors that are not in used, sorted, where their names end in one of buffers, or they are rotary
// frequencies: every implementation of these models computes them again. Others are an error that names them.
func (c *Checkpoint) Surplus(used map[string]bool, buffers []string) (allowed []string, err error) {
	buffers = append([]string{".rotary_emb.inv_freq"}, buffers...)
	var left []string
	for _, name := range slices.Sorted(maps.Keys(c.Tensors)) {
		switch {
		case used[name]:
		case slices.ContainsFunc(buffers, func(end string) bool { return strings.HasSuffix(name, end) }):
			allowed = append(allowed, name)
		default:
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return allowed, nil
	}
	return nil, fmt.Errorf("%s: this architecture has no place for tensors %s", c.Path, Listed(left))
}

// Listed names the first three of names, which is not empty, and says how many more there are.
func Listed(names []string) string {
	const shown = 3
	if n := len(names) - shown; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), n)
	}
	return strings.Join(names, ", ")
}

// Same reports whether two tensors of one shape have the same elements. Both hold weights.
func Same(a, b *Tensor) (bool, error) {
	a, b = a.Floats(), b.Floats()
	typA, _ := a.Type()
	typB, _ := b.Type()
	const piece = 1 << 16 // elements
	rawA, rawB := make([]byte, piece*typA.RowBytes(1)), make([]byte, piece*typB.RowBytes(1))
	var floatsA, floatsB [piece]float32
	elems := int(a.Bytes) / typA.RowBytes(1)
	for at := 0; at < elems; at += piece {
		n := min(piece, elems-at)
		partA, partB := rawA[:n*typA.RowBytes(1)], rawB[:n*typB.RowBytes(1)]
		if err := errors.Join(a.ReadAt(partA, int64(at*typA.RowBytes(1))), b.ReadAt(partB, int64(at*typB.RowBytes(1)))); err != nil {
			return false, err
		}
		if typA == typB && bytes.Equal(partA, partB) {
			continue
		}
		quant.Decode(typA, floatsA[:n], partA)
		quant.Decode(typB, floatsB[:n], partB)
		if !slices.Equal(floatsA[:n], floatsB[:n]) {
			return false, nil
		}
	}
	return true, nil
}
