package convert

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/imatrix"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// skeleton is a model's shape, as far as mixes depend on it.
type skeleton struct {
	arch                        string
	layers, heads, shared       int // shared: heads of keys and values
	width, inner, vocab, expert int
	tied                        bool
	matrix                      bool // there are importances
}

func skeletons() map[string]skeleton {
	plain := skeleton{arch: "llama", layers: 9, heads: 4, shared: 4, width: 256, inner: 512, vocab: 32}
	list := map[string]skeleton{"plain": plain}
	add := func(name string, change func(s *skeleton)) {
		s := plain
		change(&s)
		list[name] = s
	}
	add("matrix", func(s *skeleton) { s.matrix = true })
	add("shared", func(s *skeleton) { s.shared, s.tied = 1, true })
	add("shared-matrix", func(s *skeleton) { s.shared, s.layers, s.matrix = 1, 17, true })
	add("narrow", func(s *skeleton) { s.width, s.inner = 288, 672 })
	add("experts", func(s *skeleton) { s.expert, s.shared, s.layers = 8, 1, 8 })
	add("few-experts", func(s *skeleton) { s.expert = 4 })
	add("falcon", func(s *skeleton) { s.arch = "falcon"; s.layers = 17 })
	add("large", func(s *skeleton) { s.layers, s.shared = 80, 2 })
	return list
}

// write makes a file of zeros.
func (s skeleton) write(t *testing.T, path string) {
	t.Helper()
	key := func(name string, v any) gguf.KV { return gguf.KV{Key: s.arch + "." + name, Value: v} }
	keys := []gguf.KV{
		{Key: "general.architecture", Value: s.arch},
		key("context_length", uint32(64)), key("embedding_length", uint32(s.width)), key("block_count", uint32(s.layers)),
		key("feed_forward_length", uint32(s.inner)), key("attention.head_count", uint32(s.heads)), key("attention.head_count_kv", uint32(s.shared)),
		key("attention.layer_norm_rms_epsilon", float32(1e-5)), key("attention.layer_norm_epsilon", float32(1e-5)),
		key("rope.dimension_count", uint32(s.width/s.heads)),
	}
	if s.expert > 0 {
		keys = append(keys, key("expert_count", uint32(s.expert)), key("expert_used_count", uint32(2)))
	}
	var tensors []gguf.Source
	add := func(name string, shape ...int) {
		tensors = append(tensors, gguf.Source{Name: name, Type: quant.F16, Shape: shape, Write: func(w io.Writer) error {
			n := 2
			for _, d := range shape {
				n *= d
			}
			_, err := w.Write(make([]byte, n))
			return err
		}})
	}
	add("token_embd.weight", s.width, s.vocab)
	if !s.tied {
		add("output.weight", s.width, s.vocab)
	}
	kv := s.width / s.heads * s.shared
	for l := range s.layers {
		at := fmt.Sprintf("blk.%d.", l)
		if s.arch == "falcon" {
			add(at+"attn_qkv.weight", s.width, s.width+2*kv)
		} else {
			add(at+"attn_q.weight", s.width, s.width)
			add(at+"attn_k.weight", s.width, kv)
			add(at+"attn_v.weight", s.width, kv)
		}
		add(at+"attn_output.weight", s.width, s.width)
		if s.expert > 0 {
			add(at+"ffn_gate_inp.weight", s.width, s.expert)
			add(at+"ffn_gate_exps.weight", s.width, s.inner, s.expert)
			add(at+"ffn_up_exps.weight", s.width, s.inner, s.expert)
			add(at+"ffn_down_exps.weight", s.inner, s.width, s.expert)
			continue
		}
		if s.arch != "falcon" {
			add(at+"ffn_gate.weight", s.width, s.inner)
		}
		add(at+"ffn_up.weight", s.width, s.inner)
		add(at+"ffn_down.weight", s.inner, s.width)
	}
	if err := gguf.Create(t.Context(), path, "GGUF", keys, tensors, nil); err != nil {
		t.Fatal(err)
	}
}

// TestMixesAreLlamaCpps: for each skeleton and mix, testdata/mixes.txt has the types that llama-quantize --dry-run
// (3f545bec) gave to the tensors of this test's files, in file order. A letter stands for a type, and a number before
// it for repetitions.
func TestMixesAreLlamaCpps(t *testing.T) {
	file, err := os.Open("testdata/mixes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	letters := map[string]string{}
	files := map[string]*gguf.File{}
	lines := bufio.NewScanner(file)
	compared := 0
	for lines.Scan() {
		word := strings.Fields(lines.Text())
		if word[0] == "letters" {
			for _, w := range word[1:] {
				typ, letter, _ := strings.Cut(w, "=")
				letters[typ] = letter
			}
			continue
		}
		name, mix, want := word[0], word[1], word[2]
		s, ok := skeletons()[name]
		if !ok {
			t.Fatalf("there is no skeleton %q", name)
		}
		f := files[name]
		if f == nil {
			path := filepath.Join(t.TempDir(), name+".gguf")
			s.write(t, path)
			f = opened(t, path)
			files[name] = f
		}
		o, err := ParseOutput(mix)
		if err != nil {
			t.Fatal(err)
		}
		q := Quantization{Output: o}
		if s.matrix {
			q.Matrix = imatrix.New(0)
		}
		choices, err := q.Plan(f)
		if err != nil {
			t.Errorf("%s, %s: %v", name, mix, err)
			continue
		}
		var types []string
		for _, c := range choices {
			types = append(types, letters[c.Type.String()])
		}
		if got := runs(types); got != want {
			t.Errorf("%s, %s: types %s, want %s", name, mix, got, want)
		}
		compared++
	}
	if want := len(skeletons()) * (len(outputs()) - 3); compared < want {
		t.Errorf("%d mixes were compared, at least %d are to be", compared, want)
	}
}

// runs writes equal words that follow each other once, with their number.
func runs(words []string) string {
	var b strings.Builder
	for len(words) > 0 {
		n := slices.IndexFunc(words, func(w string) bool { return w != words[0] })
		if n < 0 {
			n = len(words)
		}
		if n > 1 {
			fmt.Fprint(&b, n)
		}
		b.WriteString(words[0])
		words = words[n:]
	}
	return b.String()
}
