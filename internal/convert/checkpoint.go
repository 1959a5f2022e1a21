package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// checkpoint is a folder's weights: one safetensors file, or several with an index, else the same in PyTorch's form. Close
// closes them.
type checkpoint struct {
	path    string // of the file or index that names the tensors
	tensors map[string]*stored
	files   []*os.File
}

func openCheckpoint(dir string) (_ *checkpoint, err error) {
	c := &checkpoint{path: filepath.Join(dir, "model.safetensors"), tensors: map[string]*stored{}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if _, err := os.Stat(c.path); err == nil {
		return c, c.openShard(c.path)
	}
	found := false
	for _, name := range []string{"model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"} {
		c.path = filepath.Join(dir, name)
		if found = exists(c.path); found {
			break
		}
	}
	switch {
	case !found:
		return nil, fmt.Errorf("%s: no model.safetensors and no model.safetensors.index.json in it; name a Hugging Face model folder", dir)
	case strings.HasSuffix(c.path, ".bin"):
		return c, c.openShard(c.path)
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := readJSON(c.path, &index); err != nil {
		return nil, err
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("%s: key %q is missing or empty", c.path, "weight_map")
	}
	names := map[string]bool{}
	for name, file := range index.WeightMap {
		// A shard lies beside its index; a path that leads elsewhere is not followed.
		if filepath.Base(file) != file || !filepath.IsLocal(file) || strings.ContainsAny(file, `/\`) {
			return nil, fmt.Errorf("%s: tensor %q: %q is not a file name in this folder", c.path, name, file)
		}
		names[file] = true
	}
	files := sortedKeys(names)
	for _, file := range files {
		if err := c.openShard(filepath.Join(dir, file)); err != nil {
			return nil, err
		}
	}
	for _, name := range sortedKeys(index.WeightMap) {
		t, want := c.tensors[name], filepath.Join(dir, index.WeightMap[name])
		if t == nil || t.file.path != want {
			return nil, fmt.Errorf("%s: tensor %q is not in %s", c.path, name, want)
		}
	}
	return c, nil
}

func (c *checkpoint) openShard(path string) error {
	if strings.HasSuffix(path, ".bin") {
		return c.openTorch(path)
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

// openTorch adds a state dict that torch.save has written.
func (c *checkpoint) openTorch(path string) error {
	t, err := openTorch(path)
	if err != nil {
		return err
	}
	c.files = append(c.files, t.file)
	tensors, err := t.stateDict()
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(tensors) {
		if err := c.add(tensors[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkpoint) add(t *stored) error {
	if other := c.tensors[t.name]; other != nil {
		return fmt.Errorf("%s: tensor %q is also in %s", t.file.path, t.name, other.file.path)
	}
	c.tensors[t.name] = t
	return nil
}

// Close closes the files; no tensor can be read afterwards.
func (c *checkpoint) Close() {
	for _, f := range c.files {
		f.Close()
	}
}

// surplus is an error that names the tensors not in used, or nil. What every implementation of these models
// recomputes (rotary frequencies) may be left over.
func (c *checkpoint) surplus(used map[string]bool) error {
	var left []string
	for name := range c.tensors {
		if !used[name] && !strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	sort.Strings(left)
	more := ""
	if n := len(left) - 3; n > 0 {
		left, more = left[:3], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%s: this architecture has no place for tensors %s%s", c.path, strings.Join(left, ", "), more)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
