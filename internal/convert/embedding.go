package convert

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// maxLabels bounds the numbers of a classification head.
const maxLabels = 1 << 16

// module is one line of a folder's modules.json, as Sentence Transformers writes it.
type module struct {
	Path string `json:"path"`
	Type string `json:"type"` // a Python class: sentence_transformers.models.Pooling
}

// readModules returns the folder's modules, except the model itself. A folder without a list may have the usual pooling
// module.
func readModules(dir string) ([]module, error) {
	path := filepath.Join(dir, "modules.json")
	if !checkpoint.Exists(path) {
		if checkpoint.Exists(filepath.Join(dir, "1_Pooling", "config.json")) {
			return []module{{"1_Pooling", "Pooling"}}, nil
		}
		return nil, nil
	}
	var all []module
	if err := checkpoint.ReadJSON(path, &all); err != nil {
		return nil, err
	}
	var out []module
	for _, m := range all {
		switch m.Type = m.Type[strings.LastIndexByte(m.Type, '.')+1:]; m.Type {
		case "Pooling", "Dense":
			if !filepath.IsLocal(m.Path) {
				return nil, fmt.Errorf("%s: module %q lies in %q, which is not a folder within this one", path, m.Type, m.Path)
			}
			out = append(out, m)
		case "Normalize": // users of embeddings scale them
		case "Transformer":
			if m.Path != "" {
				return nil, fmt.Errorf("%s: the model lies in %q; convert that folder, with 1_Pooling copied into it", path, m.Path)
			}
		default:
			return nil, fmt.Errorf("%s: a module of type %q is not supported; Transformer, Pooling, Dense and Normalize are", path, m.Type)
		}
	}
	return out, nil
}

// embedding plans the folder's settings for embeddings: their pooling, and the modules after it.
func (m *model) embedding(dir string, p *plan, c *config, notes func(string)) error {
	modules, err := readModules(dir)
	if err != nil {
		return err
	}
	dense := 0
	for _, module := range modules {
		if module.Type == "Pooling" {
			keys, err := poolingKeys(filepath.Join(dir, module.Path, "config.json"), m.arch)
			if err != nil {
				return err
			}
			m.keys = append(m.keys, keys...)
			continue
		}
		if dense++; dense > 2 {
			return fmt.Errorf("%s: more than two modules of type Dense are not supported", filepath.Join(dir, "modules.json"))
		}
		if err := m.denseModule(filepath.Join(dir, module.Path), dense+1, p, c, notes); err != nil {
			return err
		}
	}
	if strings.HasSuffix(c.Architectures[0], "ForSequenceClassification") && p.family.Classifier != nil {
		return m.classifier(p, c, notes)
	}
	return nil
}

// poolingKeys returns the key of how a text's tokens become one embedding, from a pooling module's settings.
func poolingKeys(path, family string) ([]gguf.KV, error) {
	var c struct {
		Mode string `json:"pooling_mode"` // newer folders
		Mean bool   `json:"pooling_mode_mean_tokens"`
		CLS  bool   `json:"pooling_mode_cls_token"`
		Last bool   `json:"pooling_mode_lasttoken"`
	}
	if err := checkpoint.ReadJSON(path, &c); err != nil {
		return nil, err
	}
	var way []nn.Pooling
	for i, is := range []bool{c.Mean || c.Mode == "mean", c.CLS || c.Mode == "cls", c.Last || c.Mode == "lasttoken"} {
		if is {
			way = append(way, []nn.Pooling{nn.PoolMean, nn.PoolCLS, nn.PoolLast}[i])
		}
	}
	if len(way) != 1 {
		return nil, fmt.Errorf("%s: one of pooling_mode_mean_tokens, pooling_mode_cls_token and pooling_mode_lasttoken must be true, and no other", path)
	}
	return []gguf.KV{{Key: family + ".pooling_type", Value: way[0].Number()}}, nil
}

// denseModule plans a product after pooling. Files call the first such product dense_2, as folders number their
// modules.
func (m *model) denseModule(dir string, number int, p *plan, c *config, notes func(string)) error {
	path := filepath.Join(dir, "config.json")
	var d struct {
		In         int    `json:"in_features"`
		Out        int    `json:"out_features"`
		Activation string `json:"activation_function"`
	}
	if err := checkpoint.ReadJSON(path, &d); err != nil {
		return err
	}
	if d.Activation != "" && !strings.HasSuffix(d.Activation, ".Identity") {
		return fmt.Errorf("%s: key %q: %q is not supported behind pooling; Identity is", path, "activation_function", d.Activation)
	}
	if width := m.width(c); d.In != width || d.Out < 1 || d.Out > maxWidth {
		return fmt.Errorf("%s: %d inputs and %d outputs: %d inputs are needed, and up to %d outputs are possible", path, d.In, d.Out, width, maxWidth)
	}
	source, err := checkpoint.Open(dir)
	if err != nil {
		return err
	}
	m.modules = append(m.modules, source)
	own := &plan{family: p.family, source: source, used: map[string]bool{}}
	name := fmt.Sprintf("dense_%d", number)
	own.add(name+".weight", "linear.weight", d.Out, d.In)
	if err := own.finish(notes); err != nil {
		return err
	}
	m.tensors = append(m.tensors, own.tensors...)
	m.keys = append(m.keys, gguf.KV{Key: m.arch + "." + name + "_feat_in", Value: uint32(d.In)}, gguf.KV{Key: m.arch + "." + name + "_feat_out", Value: uint32(d.Out)})
	if m.arch != "gemma-embedding" {
		notes(fmt.Sprintf("%s: llama.cpp projects embeddings of gemma-embedding only; PowerInfer does here, too", dir))
	}
	return nil
}

// width returns the elements of a state after the modules planned so far.
func (m *model) width(c *config) int {
	for _, t := range slices.Backward(m.tensors) {
		if strings.HasPrefix(t.name, "dense_") {
			return t.shape[1]
		}
	}
	return c.Hidden
}

// classifier plans a classification head, which makes a reranker of the model.
func (m *model) classifier(p *plan, c *config, notes func(string)) error {
	labels := 0
	for _, t := range p.family.Classifier {
		source := p.found("", strings.Fields(t.Source), "")
		stored := p.source.Tensors[source]
		if stored == nil && t.Optional {
			continue
		}
		dims := []int{c.Hidden, c.Hidden}
		if strings.HasPrefix(t.Name, "cls.output.") {
			if labels == 0 && stored != nil && len(stored.Shape) > 0 {
				labels = min(stored.Shape[0], maxLabels)
			}
			dims[0] = max(1, labels)
		}
		if strings.HasSuffix(t.Name, ".bias") || t.Name == "cls.norm.weight" {
			dims = dims[:1]
		}
		p.add(t.Name, source, dims...).as = asFloats
	}
	if p.err != nil {
		return p.err
	}
	if names := c.labels(labels); labels > 1 || names != nil {
		if names == nil {
			for i := range labels {
				names = append(names, "LABEL_"+strconv.Itoa(i))
			}
		}
		m.keys = append(m.keys, gguf.KV{Key: m.arch + ".classifier.output_labels", Value: names})
	}
	if p.family.Name == "modern-bert" {
		way := nn.Pooling(c.ClassifierPooling)
		if way == "" {
			way = nn.PoolCLS // as Hugging Face's library has it
		}
		if way != nn.PoolCLS && way != nn.PoolMean {
			return c.Errorf("classifier_pooling", "%q is not supported; cls and mean are", way)
		}
		if way != p.ranking.Pooling {
			m.keys = append(m.keys, gguf.KV{Key: nn.RankPoolingKey, Value: string(way)})
			notes(fmt.Sprintf("%s: the classification head reads the first token's state; llama.cpp will give it the mean of all, and other scores", c.Path))
		}
	}
	if p.family.Name == "jina-bert-v2" {
		notes(fmt.Sprintf("%s: llama.cpp reads no classification head of two products of %s; PowerInfer does", c.Path, p.family.Name))
	}
	m.rerank()
	return nil
}

// rerank marks the model as a reranker, whatever the folder's pooling is.
func (m *model) rerank() {
	key := m.arch + ".pooling_type"
	m.keys = append(slices.DeleteFunc(m.keys, func(kv gguf.KV) bool { return kv.Key == key }), gguf.KV{Key: key, Value: nn.PoolRank.Number()})
}

// labels returns the names of n numbers, if config.json has as many.
func (c *config) labels(n int) []string {
	var named map[string]string
	if len(c.Labels) == 0 || json.Unmarshal(c.Labels, &named) != nil || len(named) != n {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		name, ok := named[strconv.Itoa(i)]
		if !ok {
			return nil
		}
		out[i] = name
	}
	return out
}

// Qwen 3's rerankers are asked by a text that ends where the model says yes or no. Sources: the model cards of
// Qwen3-Reranker.
const (
	qwenRerankTemplate = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
		"Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n" +
		"<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n" +
		"<|im_start|>assistant\n<think>\n\n</think>\n\n"
	qwenClassifier = "Qwen3ForSequenceClassification"
)

// ranksAnswers reports whether a folder of Qwen 3 holds a reranker. The configuration lacks that; the folder's name or
// its README has it.
func (c *config) ranksAnswers(dir string) bool {
	if c.Architectures[0] == qwenClassifier {
		return true
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		abs = dir
	}
	for _, name := range []string{filepath.Base(abs), c.Source} {
		if strings.Contains(strings.ToLower(name), "qwen3-reranker") {
			return true
		}
	}
	text, err := checkpoint.ReadFile(filepath.Join(dir, "README.md"))
	return err == nil && strings.Contains(strings.ToLower(string(text)), "# qwen3-reranker")
}

// rankAnswers makes a Qwen 3 a reranker: of the head, only the rows of yes and no stay. A classifier's folder has one
// row, the difference of yes and no.
func (m *model) rankAnswers(p *plan, c *config, v *vocabulary) error {
	const name = "cls.output.weight"
	if c.Architectures[0] == qwenClassifier {
		p.from(name, "score.weight", []int{2, c.Hidden}, []int{1, c.Hidden}).as = asFloats // the second row is zero
	} else {
		yes, no := slices.Index(v.tokens, "yes"), slices.Index(v.tokens, "no")
		if yes < 0 || no < 0 {
			return fmt.Errorf("%s: a reranker answers yes or no, and there is no such token", v.path)
		}
		head := slices.IndexFunc(p.tensors, func(t *tensor) bool { return t.name == "output.weight" })
		if head < 0 {
			head = slices.IndexFunc(p.tensors, func(t *tensor) bool { return t.name == "token_embd.weight" })
		}
		of := *p.tensors[head]
		of.name, of.as, of.shape = name, asFloats, []int{c.Hidden, 2}
		of.row = func(r int) int { return []int{yes, no}[r] }
		p.tensors = append(p.tensors, &of)
	}
	p.tensors = slices.DeleteFunc(p.tensors, func(t *tensor) bool { return t.name == "output.weight" })
	v.templates["rerank"] = qwenRerankTemplate
	m.keys = append(m.keys, gguf.KV{Key: m.arch + ".classifier.output_labels", Value: []string{"yes", "no"}})
	m.rerank()
	return p.err
}
