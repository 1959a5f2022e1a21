// Package visiontest makes tiny random models that see: a text model, its vision tower and pictures, from a seed. The
// testdata of internal/vision holds what llama.cpp computes from the same files.
package visiontest

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// Case is a text model, a tower and pictures that go together.
type Case struct {
	Name     string // the folder's: the projector, and what differs from the usual
	Pictures []Picture
	Least    int // of a picture's rows, as the tower's limits ask; 0: as usual

	text     synth.Spec
	tokens   []string   // the special ones
	matrices quant.Type // of the tower
	tower    func(*file)
	peer     func(*file) // changes the tower so that llama.cpp computes from it what the published model is
}

// Prompt is what all cases are asked; Marker is the picture's place in it.
const (
	Marker = "<__media__>"
	Prompt = "see this: " + Marker + " what is it?"
)

// Names of the files of a case in its folder; pictures have their names and ".png".
const (
	TextFile  = "text.gguf"
	TowerFile = "mmproj.gguf"
	PeerFile  = "mmproj.peer.gguf" // for llama.cpp, in cases where it differs from the published model
)

// Write writes the case's files to a folder, which it makes.
func (c Case) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := c.WriteText(filepath.Join(dir, TextFile)); err != nil {
		return err
	}
	if err := c.WriteTower(filepath.Join(dir, TowerFile)); err != nil {
		return err
	}
	if c.peer != nil {
		f := file{seed: "tower " + c.Name, matrices: c.matrices}
		c.tower(&f)
		c.peer(&f)
		if err := f.write(filepath.Join(dir, PeerFile)); err != nil {
			return err
		}
	}
	for _, p := range c.Pictures {
		if err := p.Write(filepath.Join(dir, p.Name+".png")); err != nil {
			return err
		}
	}
	return nil
}

// Projector returns the kind of the case's tower.
func (c Case) Projector() string {
	f := file{}
	c.tower(&f)
	for _, k := range f.keys {
		if strings.HasSuffix(k.Key, ".projector_type") {
			return k.Value.(string)
		}
	}
	panic("visiontest: a tower without a name")
}

// WriteText writes only the text model.
func (c Case) WriteText(path string) error { return writeText(path, "text "+c.Name, c.text, c.tokens) }

// WriteTower writes only the tower.
func (c Case) WriteTower(path string) error {
	f := file{seed: "tower " + c.Name, matrices: c.matrices}
	c.tower(&f)
	return f.write(path)
}

// shape has the sizes that towers of all projectors have.
type shape struct {
	text, image, patch, embd, ff, layers, heads int
	mean, deviation                             []float32
	epsilon                                     float32
}

// common adds the keys that files of all projectors have.
func (f *file) common(projector string, s shape) {
	f.key("general.architecture", "clip")
	f.key("general.type", "mmproj")
	f.key("general.name", "tiny "+projector)
	fileType, _ := f.matrices.FileType()
	f.key("general.file_type", fileType)
	f.key("general.quantization_version", uint32(2))
	f.key("clip.has_vision_encoder", true)
	f.key("clip.projector_type", projector)
	for _, k := range []struct {
		name  string
		value int
	}{
		{"projection_dim", s.text},
		{"image_size", s.image},
		{"patch_size", s.patch},
		{"embedding_length", s.embd},
		{"feed_forward_length", s.ff},
		{"block_count", s.layers},
		{"attention.head_count", s.heads},
	} {
		f.key("clip.vision."+k.name, uint32(k.value))
	}
	f.key("clip.vision.image_mean", s.mean)
	f.key("clip.vision.image_std", s.deviation)
	f.key("clip.vision.attention.layer_norm_epsilon", s.epsilon)
}

// Means and deviations of colours that published files have.
var (
	half          = []float32{0.5, 0.5, 0.5}
	clipMean      = []float32{0.48145466, 0.4578275, 0.40821073}
	clipDeviation = []float32{0.26862954, 0.26130258, 0.27577711}
)

const (
	vocab = 512
	limit = 4096 // of positions
)

// text describes the text model of a family.
func text(arch, activation string, layers int, keys ...gguf.KV) synth.Spec {
	return synth.Spec{
		Arch: arch, Layers: layers, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, Vocab: vocab, Context: limit,
		Activation: activation, Keys: keys, Seed: 1,
	}
}
