// Package convert writes GGUF files from Hugging Face model folders (config.json, safetensors or PyTorch weights,
// tokenizer), alone or joined with published predictors.
package convert

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Options of a conversion.
type Options struct {
	Output    Output                   // type of the matrices; vectors stay F32
	Target    string                   // the folder of a draft head's model; empty: the model is not such a head
	Name      string                   // general.name; empty takes config.json's, else the folder's
	NoFurther bool                     // MTP layers are left out
	Progress  func(done, total int64)  // bytes written and to write; may be nil
	Notes     func(line string)        // one line on each thing a user may want to know; may be nil
	Plan      func(size, memory int64) // called with the bytes of the file's tensors and of memory before anything is written; may be nil
}

// tell passes a note to Notes, if that is set.
func (o *Options) tell(line string) {
	if o.Notes != nil {
		o.Notes(line)
	}
}

// quantizationVersion is the version of the block layouts, as llama.cpp counts them.
const quantizationVersion = 2

// HuggingFace converts the model in folder dir to the GGUF file outfile, which appears only when it is complete.
// The same folder and options give the same bytes. Errors name the file and the key, tensor or offset.
func HuggingFace(ctx context.Context, dir, outfile string, o Options) error {
	m, err := openModel(dir, "", &o)
	if err != nil {
		return err
	}
	defer m.close()
	return o.write(ctx, outfile, m.keys, m.tensors)
}

// write writes a file of keys and tensors.
func (o Options) write(ctx context.Context, outfile string, keys []gguf.KV, tensors []*tensor) error {
	encoded := sources(tensors, keys, o)
	if o.Plan != nil {
		var size int64
		for _, t := range encoded {
			elems := 1
			for _, d := range t.Shape {
				elems *= d
			}
			size += int64(t.Type.RowBytes(elems))
		}
		o.Plan(size, memory(runtime.GOMAXPROCS(0)))
	}
	return gguf.Create(ctx, outfile, "GGUF", keys, encoded, o.Progress)
}

// memory returns the bytes that writing will have taken at its end: the memory that reading the folder took from the
// system, which the Go runtime can reuse after garbage collection, and the lanes' buffers.
func memory(lanes int) int64 {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	const perElement = 4 + 4 + 4 // as stored, decoded, encoded, each at most as wide as a float32
	return int64(now.Sys) + int64(lanes)*chunkElems*perElement
}

// model is a folder's model, ready to be written.
type model struct {
	arch    string
	keys    []gguf.KV
	tensors []*tensor
	source  *checkpoint.Checkpoint   // open; to be closed when the tensors are written
	modules []*checkpoint.Checkpoint // open, too: modules that follow pooling
}

// openModel reads the settings of the model in folder dir and plans its tensors. If predictors is not empty, it does
// the same with the predictors in that folder.
func openModel(dir, predictors string, o *Options) (*model, error) {
	if err := o.Output.check(); err != nil {
		return nil, err
	}
	if o.Notes == nil {
		o.Notes = func(string) {}
	}
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	if o.Target != "" {
		of, err := readConfig(o.Target)
		if err != nil {
			return nil, err
		}
		c.For, c.target = &of.Config, of
	}
	fam, err := c.family()
	if err != nil {
		return nil, err
	}
	if o.Target != "" && !fam.Drafts {
		return nil, fmt.Errorf("%s: a model of %s is no draft head, and needs no folder of another: leave --target-model-dir out", c.Path, fam.Name)
	}
	sizes, factors, err := c.keys(fam)
	if err != nil {
		return nil, err
	}
	if !fam.Window && c.Window > 0 && c.Window < c.Context && or(c.UseWindow, true) {
		o.Notes(fmt.Sprintf("%s: the sliding window of %d positions is not applied; every position is attended to", c.Path, c.Window))
	}
	m := &model{arch: fam.Name, keys: append([]gguf.KV{
		{Key: "general.architecture", Value: fam.Name},
		{Key: "general.type", Value: "model"},
		{Key: "general.name", Value: o.name(dir, c)},
		{Key: "general.file_type", Value: fileType(c, o)},
		{Key: "general.quantization_version", Value: uint32(quantizationVersion)},
	}, sizes...)}
	packing := c.Quantizing.packing()
	if packing != nil && fam.Grouped {
		packing.Parted, packing.Parts = fam.QKV+".weight", c.KVHeads
	}
	if m.source, err = openFolder(dir, packing); err != nil {
		return nil, err
	}
	var notes []string // notes about an accepted folder
	fam.Further = fam.Further && !o.NoFurther && predictors == ""
	if err = m.plan(dir, fam, c, factors, predictors, func(s string) { notes = append(notes, s) }); err != nil {
		m.close()
		return nil, err
	}
	for _, s := range notes {
		o.Notes(s)
	}
	return m, nil
}

// fileType returns general.file_type of a folder's model: of one in NVFP4 its own.
func fileType(c *config, o *Options) uint32 {
	if c.Quantizing.nvfp4() {
		n, _ := quant.NVFP4.FileType()
		return n
	}
	return o.Output.fileType
}

// close closes the tensors' sources.
func (m *model) close() {
	m.source.Close()
	for _, s := range m.modules {
		s.Close()
	}
}

// plan lists the tensors to write, and the keys that are read with them.
func (m *model) plan(dir string, fam lineage.Family, c *config, factors map[string][]float32, predictors string, notes func(string)) error {
	p := &plan{family: fam, source: m.source, used: map[string]bool{}}
	if c.Quantizing.nvfp4() {
		p.findSmallFloats()
	}
	p.model(c, m.keys, factors)
	if p.err == nil {
		p.finishSmall()
	}
	if predictors != "" && p.err == nil {
		if err := openPredictors(m.source, predictors, c); err != nil {
			return err
		}
		planPredictors(p, c)
	}
	if p.err != nil {
		return p.err
	}
	if err := m.embedding(dir, p, c, notes); err != nil {
		return err
	}
	of, folder := c, dir // the tokenizer's
	if c.target != nil && c.Head != nil {
		of, folder = c.target, c.target.folder()
	}
	gen := readGeneration(folder, notes)
	v, err := readVocabulary(folder, of, gen, notes)
	if err != nil {
		return err
	}
	if c.Head != nil && c.Head.Block > 0 {
		delete(v.ids, "mask") // the head's own is among m.keys
	}
	if p.ranking.Softmax && c.ranksAnswers(dir) {
		if err := m.rankAnswers(p, c, v); err != nil {
			return err
		}
	}
	if c.parts {
		p.leaveOut(notes)
	}
	if p.further > 0 {
		m.keys = c.withFurther(m.keys, fam, p.further)
	}
	m.keys = append(m.keys, p.keys...)
	p.leaveOutFurther(c, notes)
	p.leaveOutPredictors(notes)
	m.keys = slices.Concat(m.keys, gen.keys(notes), v.keys())
	p.unblock()
	m.tensors = append(p.tensors, m.tensors...)
	return p.finish(notes)
}

func (o Options) name(dir string, c *config) string {
	if o.Name != "" {
		return o.Name
	}
	if n := filepath.Base(filepath.ToSlash(c.Source)); n != "." && n != "/" && n != "" {
		return n
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}
