package compute

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTogether: time in which a GPU and the CPU work together is counted once, wherever the parts begin and end.
func TestTogether(t *testing.T) {
	w := &Watch{On: true, turns: []turn{{10, 20}, {20, 30}, {50, 60}}}
	for _, ran := range []turn{{0, 5}, {8, 12}, {18, 22}, {25, 55}, {58, 59}, {59, 70}, {80, 90}} {
		w.Ran(PartNeurons, ran.from, ran.to)
	}
	const want = 2 + 4 + (5 + 5) + 1 + 1
	if w.Work.Together != want || w.Work.GPU[PartNeurons] != 5+4+4+30+1+11+10 {
		t.Errorf("together for %d, want %d; the GPU %d", w.Work.Together, want, w.Work.GPU[PartNeurons])
	}
	w.Begin()
	if w.Ran(PartHead, 0, 100); w.Work.Together != want || w.Work.GPU.Sum() != 165 {
		t.Errorf("in a run without turns of the processor: %+v", w.Work)
	}
	w.On = false
	w.Turn(0)
	if w.Ran(PartHead, 0, 100); w.Work.GPU.Sum() != 165 || len(w.turns) != 0 {
		t.Errorf("nobody watches: %+v", w.Work)
	}
	(*Watch)(nil).Ran(PartHead, 0, time.Second)
	if d := w.Work.Plus(w.Work, -1); d != (Work{}) {
		t.Errorf("a work less itself is %+v", d)
	}
}

func TestPartNamed(t *testing.T) {
	for name, want := range map[string]Part{
		"blk.3.attn": PartAttention, "blk.3.attn_q.weight": PartAttention, "blk.3.ffn sent": PartNeurons, "blk.12.fc1": PartPredictor, "blk.12.fc2.weight": PartPredictor,
		"output": PartHead, "output.weight": PartHead, "token_embd.weight": PartHead, "output_norm": PartRest, "": PartRest, "run": PartRest,
	} {
		if got := PartNamed(name); got != want {
			t.Errorf("%q belongs to part %d, want %d", name, got, want)
		}
	}
}

// TestPartOfEveryOperation: each operation says which part of a model it belongs to.
func TestPartOfEveryOperation(t *testing.T) {
	const rest = "Add AddPosition AddType AltUpCorrect AltUpPredict AttendResiduals Clamp ConnectionWeights CopyColumns Embed " +
		"EmbedNGrams Gather Insert LayerNorm Match MatchStreams Multiply Precede RMSNorm ReadGated ReadStreams Recent Scale " +
		"Shift Slice SoftCap WriteStreams"
	var got []string
	all := reflect.TypeFor[Operations]()
	for i := range all.NumMethod() {
		m := all.Method(i)
		if strings.HasPrefix(m.Name, "MatMul") { // their weights say it
			continue
		}
		if op := reflect.New(m.Type.In(0).Elem()).Interface().(Op); PartOf(op) == PartRest {
			got = append(got, m.Name)
		}
	}
	if !slices.Equal(got, strings.Fields(rest)) {
		t.Errorf("operations of no part are %s", strings.Join(got, " "))
	}
}
