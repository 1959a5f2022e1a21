package model_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/kernel"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// golden holds another engine's results: testdata/golden/*.json, one file per engine. Models are made from seeds, so
// that only numbers are stored; hashes check that they are the files that the engine saw. POWERINFER_GOLDEN=DIR writes
// the models to DIR, to run an engine on them.
type golden struct {
	Peer    string       `json:"peer"`
	Version string       `json:"version"`
	Commit  string       `json:"commit"`
	Date    string       `json:"date"`
	How     string       `json:"how"`
	Cases   []goldenCase `json:"cases"`
}

type goldenCase struct {
	Name string `json:"name"`
	Type string `json:"type"`
	synth.Spec
	More      []goldenKey `json:"keys,omitempty"`      // further metadata
	Threshold *float32    `json:"threshold,omitempty"` // the predictors' threshold
	SHA256    string      `json:"sha256"`              // hash of the model file
	Tokens    []int32     `json:"tokens"`
	Rows      []goldenRow `json:"rows"`
}

type goldenKey struct {
	Key   string   `json:"key"`
	Text  *string  `json:"text,omitempty"`
	Count *uint32  `json:"count,omitempty"`
	Float *float32 `json:"float,omitempty"`
}

// goldenRow holds some logits of one position, its five highest among them, and the largest in size.
type goldenRow struct {
	Pos     int       `json:"pos"`
	Tokens  []int32   `json:"tokens"`
	Logits  []float64 `json:"logits"`
	Largest float64   `json:"largest"`
}

// tolerance returns the largest difference of a logit to a peer's, as a share of the logit with the largest magnitude.
// The peer itself differs from the exact result by as much: its keys, values and scores are halves, its exponentials
// come from tables of halves, and it rounds activations to the weights' precision. The observed differences are half of
// these.
func (c *goldenCase) tolerance(kernels string) float64 {
	switch {
	case c.Type == "F32":
		return 5e-4
	case c.Type == "F16" && !strings.Contains(kernels, "BF16") && !strings.Contains(kernels, "AMX"):
		return 1e-3
	case c.Type == "F16", c.Type == "BF16": // kernels that multiply BF16 round weights and activations to eight bits of mantissa
		return 1e-2
	case strings.Contains(kernels, "AMX"): // prompts in BF16 tiles lose less than the peer, which rounds activations to eight bits
		return 2 * eightBits
	}
	return eightBits
}

// eightBits is the tolerance where both sides round activations to eight bits, at scales of their own.
const eightBits = 3e-2

func (c *goldenCase) spec(t *testing.T) synth.Spec {
	t.Helper()
	s := c.Spec
	for _, typ := range quant.Types() {
		if typ.String() == c.Type {
			s.Type = typ
		}
	}
	for _, k := range c.More {
		switch {
		case k.Text != nil:
			s.Keys = append(s.Keys, gguf.KV{Key: k.Key, Value: *k.Text})
		case k.Count != nil:
			s.Keys = append(s.Keys, gguf.KV{Key: k.Key, Value: *k.Count})
		case k.Float != nil:
			s.Keys = append(s.Keys, gguf.KV{Key: k.Key, Value: *k.Float})
		default:
			t.Fatalf("%s: key %s has no value", c.Name, k.Key)
		}
	}
	return s
}

// TestGolden compares the forward pass of every family with other engines' logits.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden logits: %v", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var g golden
		if err := json.Unmarshal(data, &g); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range testenv.Few(t, 12, g.Cases) {
			t.Run(fmt.Sprintf("%s/%s", g.Peer, c.Name), func(t *testing.T) {
				t.Parallel()
				c.run(t)
			})
		}
	}
}

// run compares on the fastest kernels that the machine has and on the portable ones. By neuron, short steps are
// computed another way than long ones.
func (c *goldenCase) run(t *testing.T) {
	f := c.model(t)
	plans := [][]int{{len(c.Tokens)}}
	if c.Magic == "PWRI" {
		plans = append(plans, []int{3, 1})
	}
	for _, kernels := range []string{"", kernel.Generic} {
		for _, steps := range plans {
			logits, name := c.evaluate(t, f, kernels, c.Threshold, steps)
			limit := c.tolerance(name)
			if worst := c.difference(logits); !(worst <= limit) {
				t.Errorf("%s, steps of %d: a logit differs by %.2g of the largest, more than %g", name, steps, worst, limit)
			} else {
				t.Logf("%s, steps of %d: largest difference %.2g", name, steps, worst)
			}
			if c.Threshold == nil || *c.Threshold < -1 {
				continue
			}
			every := float32(-1e9)
			if logits, _ := c.evaluate(t, f, kernels, &every, steps); c.difference(logits) < 3*min(limit, eightBits) {
				t.Errorf("%s, steps of %d: with every neuron the logits are as near, so that the predicted sets are not tested", name, steps)
			}
		}
	}
}

// difference returns the largest, as a share of the position's largest logit.
func (c *goldenCase) difference(logits [][]float32) float64 {
	worst := math.Inf(1) // if there is nothing to compare with
	for i, r := range c.Rows {
		if i == 0 {
			worst = 0
		}
		for j, id := range r.Tokens {
			worst = max(worst, math.Abs(float64(logits[r.Pos][id])-r.Logits[j])/r.Largest)
		}
	}
	return worst
}

// model makes the file that the peer saw.
func (c *goldenCase) model(t *testing.T) *gguf.File {
	t.Helper()
	dir := os.Getenv("POWERINFER_GOLDEN")
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, c.Name+".gguf")
	if err := synth.Write(t.Context(), path, c.spec(t), nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != c.SHA256 {
		t.Fatalf("the model is another than the peer's: SHA-256 %x, not %s", sum, c.SHA256)
	}
	f, err := gguf.Parse(path, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (c *goldenCase) evaluate(t *testing.T, f *gguf.File, kernels string, threshold *float32, steps []int) (logits [][]float32, device string) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Threads: 1, Set: kernels})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	n := len(c.Tokens)
	m, err := model.Load(t.Context(), f, dev, model.Options{Batch: n, Outputs: n, Cache: compute.CacheSpec{Pages: 8}, Neurons: model.Neurons{Threshold: threshold}})
	if err != nil {
		t.Fatal(err)
	}
	return evaluate(t, m, c.Tokens, steps...), dev.Name()
}
