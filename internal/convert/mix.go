package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Output is the form in which matrices are stored: a type, from which some matrices differ as llama.cpp's mixes have
// it.
type Output struct {
	name     string     // llama.cpp's name
	fileType uint32     // general.file_type
	base     quant.Type // type of most matrices
}

// outputs lists the available outputs, in the order of the help text.
func outputs() []Output {
	return []Output{
		{"F32", 0, quant.F32},
		{"F16", 1, quant.F16},
		{"BF16", 32, quant.BF16},
		{"Q8_0", 7, quant.Q8_0},
		{"Q6_K", 18, quant.Q6_K},
		{"Q5_K_M", 17, quant.Q5_K},
		{"Q5_K_S", 16, quant.Q5_K},
		{"Q5_1", 9, quant.Q5_1},
		{"Q5_0", 8, quant.Q5_0},
		{"Q4_K_M", 15, quant.Q4_K},
		{"Q4_K_S", 14, quant.Q4_K},
		{"Q4_1", 3, quant.Q4_1},
		{"Q4_0", 2, quant.Q4_0},
		{"IQ4_NL", 25, quant.IQ4_NL},
		{"IQ4_XS", 30, quant.IQ4_XS},
		{"MXFP4_MOE", 38, quant.MXFP4},
		{"Q3_K_L", 13, quant.Q3_K},
		{"Q3_K_M", 12, quant.Q3_K},
		{"Q3_K_S", 11, quant.Q3_K},
		{"IQ3_M", 27, quant.IQ3_S},
		{"IQ3_S", 26, quant.IQ3_S},
		{"IQ3_XS", 22, quant.IQ3_S},
		{"IQ3_XXS", 23, quant.IQ3_XXS},
		{"Q2_K", 10, quant.Q2_K},
		{"Q2_K_S", 21, quant.Q2_K},
		{"IQ2_M", 29, quant.IQ2_S},
		{"IQ2_S", 28, quant.IQ2_XS},
		{"IQ2_XS", 20, quant.IQ2_XS},
		{"IQ2_XXS", 19, quant.IQ2_XXS},
		{"IQ1_M", 31, quant.IQ1_M},
		{"IQ1_S", 24, quant.IQ1_S},
		{"TQ2_0", 37, quant.TQ2_0},
		{"TQ1_0", 36, quant.TQ1_0},
		{"Q2_0", 41, quant.Q2_0},
		{"Q1_0", 40, quant.Q1_0},
	}
}

// alias returns the mix that a type's bare name stands for.
func alias(name string) string {
	switch name {
	case "Q3_K", "Q4_K", "Q5_K":
		return name + "_M"
	}
	return name
}

// OutTypes lists the names that ParseOutput accepts, for flags and error messages.
func OutTypes() string {
	var names []string
	for _, o := range outputs() {
		names = append(names, strings.ToLower(o.name))
	}
	return strings.Join(names, ", ")
}

// ParseOutput reads the name of a type or of a mix, in upper or lower case, or llama.cpp's number for it.
func ParseOutput(name string) (Output, error) {
	upper := alias(strings.ToUpper(name))
	for _, o := range outputs() {
		if o.name == upper || strconv.Itoa(int(o.fileType)) == name {
			return o, nil
		}
	}
	return Output{}, fmt.Errorf("output type %q is not supported; supported are %s", name, OutTypes())
}

// OutputOf returns the output that has a type's name, or the mix that the name stands for. For a type that has neither,
// the result cannot be written.
func OutputOf(t quant.Type) Output {
	o, _ := ParseOutput(t.String()) // none in case of an error
	return o
}

func (o Output) String() string { return o.name }

// check refuses outputs that ParseOutput did not return.
func (o Output) check() error {
	if !slices.Contains(outputs(), o) {
		return fmt.Errorf("give an output type; supported are %s", OutTypes())
	}
	return nil
}

// is reports whether o is one of the mixes with these names.
func (o Output) is(names ...string) bool { return slices.Contains(names, o.name) }

// part is the role of a matrix in a model, as far as mixes distinguish roles.
type part int

const (
	partOther part = iota
	partHead       // gives the logits
	partEmbedding
	partQuery
	partKey
	partValue // and tensors that values are fused with
	partAttentionOutput
	partUp
	partGate
	partDown
)

// partOf returns which part of the model the matrix called name is.
func partOf(name string) part {
	switch name {
	case "output.weight":
		return partHead
	case "token_embd.weight", "per_layer_token_embd.weight":
		return partEmbedding
	}
	for _, p := range []struct {
		in   string
		part part
	}{
		{"attn_qkv.weight", partValue},
		{"attn_kv_b.weight", partValue},
		{"attn_v.weight", partValue},
		{"attn_k.weight", partKey},
		{"attn_q.weight", partQuery},
		{"attn_output.weight", partAttentionOutput},
		{"ffn_up", partUp},
		{"ffn_gate", partGate},
		{"ffn_down", partDown},
	} {
		if strings.Contains(name, p.in) {
			return p.part
		}
	}
	return partOther
}

// mixer chooses the types of a model's matrices in the order of layers: some mixes count the matrices before.
//
// Source: llama.cpp's quantisation mixes (src/llama-quant.cpp at 3f545bec).
type mixer struct {
	Output
	arch    string
	layers  int
	further int // how many of them are MTP layers, for which no importances are counted
	experts int
	queries int  // query heads for each key and value
	large   bool // llama.cpp calls it 70B
	tied    bool // the embedding gives the logits
	matrix  bool // there are importances

	values              int // fused or not
	seenValues          int
	seenDown            int
	seenUp, seenGate    int
	headType, embedding *quant.Type // as the user wants them
}

// newMixer reads what mixes depend on from a model's keys and the names of its tensors.
func newMixer(o Output, keys []gguf.KV, names []string) *mixer {
	m := &mixer{Output: o, tied: !slices.Contains(names, "output.weight")}
	for _, kv := range keys {
		if kv.Key == "general.architecture" {
			m.arch, _ = kv.Value.(string)
		}
	}
	count := func(key string) int { return firstInt(keys, m.arch+"."+key) }
	if m.layers = count("block_count"); m.layers == 0 {
		m.layers = layersOf(names)
	}
	m.experts, m.further = count("expert_count"), count("nextn_predict_layers")
	heads, shared := count("attention.head_count"), count("attention.head_count_kv")
	if shared == 0 {
		shared = heads
	}
	if shared > 0 {
		m.queries = heads / shared
	}
	switch m.arch {
	case "llama":
		m.large = m.layers == 80 && heads != shared
	case "qwen2", "deci", "olmo":
		m.large = m.layers == 80
	case "jais2":
		m.large = m.layers == 68
	}
	for _, name := range names {
		if partOf(name) == partValue {
			m.values++
		}
	}
	return m
}

// firstInt returns a key's whole number, or the first of its numbers, which is the first layer's; 0 if there is none.
func firstInt(keys []gguf.KV, key string) int {
	for _, kv := range keys {
		if kv.Key != key {
			continue
		}
		v := reflect.ValueOf(kv.Value)
		if v.Kind() == reflect.Slice && v.Len() > 0 {
			v = v.Index(0)
		}
		switch {
		case v.CanInt():
			return int(v.Int())
		case v.CanUint():
			return int(v.Uint())
		case v.CanFloat():
			return int(v.Float())
		}
	}
	return 0
}

// choose returns the mix's type for a matrix.
func (m *mixer) choose(name string, shape []int) quant.Type {
	p := partOf(name)
	switch {
	case p == partHead || m.tied && p == partEmbedding:
		return m.chooseHead(shape)
	case m.is("MXFP4_MOE"):
		if len(shape) > 2 && shape[2] > 1 {
			return quant.MXFP4
		}
		return quant.Q8_0
	case p == partEmbedding:
		return m.chooseEmbedding()
	case m.is("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ1_S", "IQ1_M"):
		return m.chooseSmall(p)
	}
	switch p {
	case partValue:
		return m.chooseValue()
	case partKey, partQuery:
		return m.chooseKeyOrQuery(p)
	case partAttentionOutput:
		return m.chooseAttentionOutput()
	case partDown:
		l := m.layer(name, m.seenDown)
		m.seenDown++
		return m.chooseDown(l)
	case partGate:
		l := m.layer(name, m.seenGate)
		m.seenGate++
		return m.chooseUpOrGate(l)
	case partUp:
		l := m.layer(name, m.seenUp)
		m.seenUp++
		return m.chooseUpOrGate(l)
	}
	return m.base
}

// layer returns the layer that a feed-forward matrix counts for: with experts its own, else the number of such matrices
// seen.
func (m *mixer) layer(name string, seen int) int {
	if l, _, ok := layerOf(name); ok && m.experts > 1 {
		return l
	}
	return seen
}

// predictsFurther reports whether the tensor called name belongs to an MTP layer.
func (m *mixer) predictsFurther(name string) bool {
	l, _, ok := layerOf(name)
	return ok && l >= m.layers-m.further
}

// chooseHead: errors of the matrix that gives the logits go straight into them.
func (m *mixer) chooseHead(shape []int) quant.Type {
	switch {
	case m.headType != nil:
		return *m.headType
	case m.is("MXFP4_MOE"), m.arch == "falcon", shape[0]%m.base.BlockElems() != 0:
		return quant.Q8_0
	case m.is("IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ2_S", "IQ2_M", "IQ1_M"):
		return quant.Q5_K
	case m.base != quant.Q8_0:
		return quant.Q6_K
	}
	return m.base
}

func (m *mixer) chooseEmbedding() quant.Type {
	switch {
	case m.embedding != nil:
		return *m.embedding
	case m.is("IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"):
		return quant.Q2_K
	case m.is("IQ2_S", "IQ2_M", "IQ3_XXS"):
		return quant.IQ3_S
	case m.is("TQ1_0", "TQ2_0", "Q2_0"):
		return quant.Q4_K
	}
	return m.base
}

// chooseSmall is the mix of files of about two bits and less.
func (m *mixer) chooseSmall(p part) quant.Type {
	better := quant.Q2_K
	if m.is("IQ2_S", "IQ2_M") {
		better = quant.IQ3_S
	}
	switch p {
	case partValue:
		if m.queries >= 4 || m.experts >= 4 {
			return quant.Q4_K
		}
		return better
	case partKey:
		if m.experts == 8 {
			return quant.Q4_K
		}
	case partDown:
		m.seenDown++
		if m.seenDown <= m.layers/8 {
			return better
		}
	case partAttentionOutput:
		switch {
		case m.experts == 8:
			return quant.Q5_K
		case m.is("IQ1_S", "IQ1_M"):
			return quant.IQ2_XXS
		case m.is("IQ2_S", "IQ2_M"):
			return quant.IQ3_S
		}
	}
	return m.base
}

// chooseValue: values are small where many queries share them, and errors in them weigh much.
func (m *mixer) chooseValue() quant.Type {
	seen := m.seenValues
	m.seenValues++
	typ := m.base
	switch shared := m.queries >= 4; {
	case m.is("Q2_K") && !shared:
		typ = quant.Q3_K
	case m.is("IQ3_XXS") && !shared && !m.matrix:
		typ = quant.IQ3_S
	case m.is("Q2_K", "Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S") && shared, m.is("IQ3_M"):
		typ = quant.Q4_K
	case m.is("Q3_K_M"):
		typ = quant.Q4_K
		if seen < 2 {
			typ = quant.Q5_K
		}
	case m.is("Q3_K_L"), m.is("IQ4_NL", "IQ4_XS") && shared, m.is("Q4_K_S") && seen < 4:
		typ = quant.Q5_K
	case m.is("Q4_K_M", "Q5_K_M") && matters(seen, m.values):
		typ = quant.Q6_K
	}
	switch {
	case m.experts == 8:
		return quant.Q8_0
	case m.large && (typ == quant.Q3_K || typ == quant.Q4_K):
		return quant.Q5_K
	}
	return typ
}

// matters reports whether layer l of layers layers gets more bits: the first and the last eighth do, and every third
// layer between them.
func matters(l, layers int) bool {
	return l < layers/8 || l >= 7*layers/8 || (l-layers/8)%3 == 2
}

func (m *mixer) chooseKeyOrQuery(p part) quant.Type {
	switch {
	case p == partKey && m.experts == 8:
		return quant.Q8_0
	case m.is("IQ3_XS"):
		return quant.IQ3_XXS
	case m.is("IQ3_XXS"):
		return quant.IQ2_S
	}
	return m.base
}

func (m *mixer) chooseAttentionOutput() quant.Type {
	switch {
	case m.arch == "falcon":
		if m.is("Q3_K_L") {
			return quant.Q4_K
		}
	case m.experts == 8:
		if m.is("Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS") {
			return quant.Q5_K
		}
	case m.is("Q2_K"):
		return quant.Q3_K
	case m.is("IQ3_XXS"):
		return quant.IQ3_S
	case m.is("Q3_K_M", "IQ3_M"):
		return quant.Q4_K
	case m.is("Q3_K_L"):
		return quant.Q5_K
	}
	return m.base
}

// chooseDown chooses for the down projection of layer l.
func (m *mixer) chooseDown(l int) quant.Type {
	falcon, more := m.arch == "falcon", matters(l, m.layers)
	early := l < m.layers/8
	switch {
	case m.is("Q2_K"):
		return quant.Q3_K
	case m.is("Q2_K_S") && early:
		return quant.Q4_K
	case m.is("IQ3_XXS") && !m.matrix:
		if early {
			return quant.Q4_K
		}
		return quant.Q3_K
	case m.is("Q3_K_M"):
		switch {
		case l < m.layers/16:
			return quant.Q5_K
		case !falcon || more:
			return quant.Q4_K
		}
	case m.is("IQ3_M") && (early || m.experts == 8 && more):
		return quant.Q4_K
	case m.is("Q3_K_L"):
		if falcon {
			return quant.Q4_K
		}
		return quant.Q5_K
	case m.is("Q4_K_M") && falcon:
		switch {
		case l < m.layers/16:
			return quant.Q6_K
		case more:
			return quant.Q5_K
		}
	case m.is("Q4_K_M", "Q5_K_M") && more:
		return quant.Q6_K
	case m.is("IQ4_NL", "IQ4_XS") && early && !m.matrix, m.is("Q4_K_S") && early && !falcon:
		return quant.Q5_K
	case m.is("Q4_0") && early && m.matrix: // importances alone are not enough for the first down projections
		return quant.Q4_1
	case m.is("Q5_0") && early && m.matrix:
		return quant.Q5_1
	}
	return m.base
}

func (m *mixer) chooseUpOrGate(l int) quant.Type {
	if m.is("IQ3_XS") && l >= m.layers/8 && l < 7*m.layers/8 {
		return quant.IQ3_XXS
	}
	return m.base
}

// fallback returns the type to use if typ's blocks do not divide rows; F16 if no other fits.
func fallback(typ quant.Type, cols int) quant.Type {
	if cols%typ.BlockElems() == 0 {
		return typ
	}
	other := quant.F16
	switch typ {
	case quant.IQ1_S, quant.IQ1_M, quant.IQ2_XXS, quant.IQ2_XS, quant.IQ2_S, quant.IQ3_XXS, quant.IQ3_S, quant.IQ4_XS:
		other = quant.IQ4_NL
	case quant.Q2_K, quant.Q3_K, quant.TQ1_0, quant.TQ2_0, quant.Q2_0, quant.Q1_0: // the last is ours: llama.cpp refuses such matrices
		other = quant.Q4_0
	case quant.Q4_K:
		other = quant.Q5_0
	case quant.Q5_K:
		other = quant.Q5_1
	case quant.Q6_K:
		other = quant.Q8_0
	}
	if cols%other.BlockElems() != 0 {
		return quant.F16
	}
	return other
}

// needsMatrix reports whether a matrix of so few bits is worth nothing without importances.
func (o Output) needsMatrix(name string, typ quant.Type) bool {
	if p := partOf(name); p == partHead || p == partEmbedding {
		return false
	}
	switch typ {
	case quant.IQ3_XXS, quant.IQ2_XXS, quant.IQ2_XS, quant.IQ2_S, quant.IQ1_M, quant.IQ1_S:
		return true
	}
	return typ == quant.Q2_K && o.is("Q2_K_S")
}

// layerOf returns the layer that a tensor's name begins with, and the rest of the name.
func layerOf(name string) (layer int, part string, ok bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0, "", false
	}
	number, part, ok := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	return layer, part, ok && err == nil
}

// layersOf returns the number of layers of a model with tensors of these names.
func layersOf(names []string) int {
	n := 0
	for _, name := range names {
		if l, _, ok := layerOf(name); ok {
			n = max(n, l+1)
		}
	}
	return n
}
