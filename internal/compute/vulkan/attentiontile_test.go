package vulkan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestKnownAttention: every tile that the device makes computes the known case, and attention.comp does, which other
// tests hold to the scalar device; and something else is noticed.
func TestKnownAttention(t *testing.T) {
	d := lent(t)
	kinds := []attentionKind{{key: 64, value: 128, sinks: true, slopes: true, later: true}, {key: 128, value: 128}, {key: 96, value: 64, later: true}}
	for _, k := range testenv.Some(t, 1, kinds) {
		k.halves = true
		if err := d.checkAttention(k); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		for _, tile := range d.fitting(k) {
			if err := d.checkAttention(k, tile); err != nil {
				t.Errorf("%s, %s: %v", k, tile, err)
			}
		}
	}
	a, err := checkedAttention(attentionKind{key: 8, value: 16, halves: true}).of(d)
	defer a.d.reset()
	if err != nil {
		t.Fatal(err)
	}
	a.kvHeads, a.group = a.kvHeads*a.group, 1 // the cache has fewer heads
	if err := a.compare(); err == nil {
		t.Error("another head's keys and values are not noticed")
	}
}

// TestAttentionChoice: a device attends to prompts by what passed its check and was found fastest, and says what did
// not pass.
func TestAttentionChoice(t *testing.T) {
	k := attentionKind{key: 64, value: 64, halves: true}
	wrong := errors.New("wrong")
	every := append(attentionTiles[:1:1], attentionGroups...)
	for name, c := range map[string]struct {
		asked  Arithmetic
		failed []attentionTile
		kept   attentionTile
		long   bool // the cache is not in F16
		want   []attentionTile
	}{
		"untimed":               {want: every[:1]},
		"kept":                  {kept: every[2], want: every[2:3]},
		"kept, which fails now": {kept: every[2], failed: every[2:3], want: every[:1]},
		"no subgroups":          {failed: every[:1], want: every[1:2]},
		"nothing passes":        {failed: every},
		"quantised":             {kept: every[2], long: true, want: every[:1]},
		"asked for groups":      {asked: Groups, want: every[1:2]},
		"asked for matrices":    {asked: Matrices, kept: every[1], want: every[:1]},
		"in order":              {asked: Ordered},
	} {
		d := Counter(Info{Memory: 1 << 30, Free: 1 << 30})
		d.gpu.VK = &vk.Device{} // it does not only count
		d.gpu.Info.Kind = driver.CPU
		d.long.asked, d.long.tuned, d.long.attended = c.asked, loadTuned(""), map[attentionTried]error{}
		for _, tile := range every {
			d.long.attended[attentionTried{k, tile}] = nil
		}
		for _, tile := range c.failed {
			d.long.attended[attentionTried{k, tile}] = fmt.Errorf("%s: %w", attentionTried{k, tile}, wrong)
		}
		of := k
		of.halves = !c.long
		d.long.tuned.Found[of.String()] = c.kept.String()
		if got := d.promptAttention(of); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if note := d.Note(); strings.Count(note, "wrong") != len(c.failed) {
			t.Errorf("%s: %q", name, note)
		}
	}
}

// TestAttentionCounts: a device that only counts records every way that may be chosen. What it dispatches agrees with
// the shaders, which no device of these tests may be able to run.
func TestAttentionCounts(t *testing.T) {
	d := Counter(Info{Memory: 1 << 40, Free: 1 << 40})
	seen := map[string]int{}
	d.tally = func(c *call, _ string, _ bool) {
		seen[c.shader]++
		agrees(t, c)
	}
	for _, c := range []struct{ key, value, group, tokens, pages int }{{128, 128, 4, 512, 16}, {64, 96, 6, 9, 1}} {
		cache, err := d.Cache(compute.CacheSpec{Layers: []compute.KVShape{{Heads: 2, Key: c.key, Value: c.value}}, Pages: c.pages})
		if err != nil {
			t.Fatal(err)
		}
		q, out := tensorOf(t, d, c.tokens, 2*c.group*c.key), tensorOf(t, d, c.tokens, 2*c.group*c.value)
		if err := d.Record(compute.Segment{Name: "prompt", Rows: c.tokens}, &compute.Params{Tokens: make([]int32, c.tokens)}, func(v compute.Verbs) {
			v.Attend(out, q, cache, 0, compute.Attention{Scale: 1})
		}); err != nil {
			t.Fatal(err)
		}
	}
	want := 2 * len(attentionGroups)
	if seen["attention_workgroup"] != want || seen["halve"] != want || seen[driver.AttentionShader] != 2 {
		t.Errorf("it dispatched %v", seen)
	}
}

// agrees fails unless c has what the code of its shader takes: constants, bindings, bytes of push constants.
func agrees(t *testing.T, c *call) {
	t.Helper()
	code, err := shaders.Code(c.shader)
	if err != nil {
		t.Fatal(err)
	}
	const ( // of SPIR-V
		opTypePointer, opVariable, opDecorate, opMemberDecorate = 32, 59, 71, 72
		specID, binding, offset, pushConstant                   = 1, 33, 35, 9
	)
	specs, bindings, ends, pointers, push := map[uint32]bool{}, map[uint32]bool{}, map[uint32]int{}, map[uint32]uint32{}, 0
	for at := 5; at < len(code); at += int(code[at] >> 16) {
		switch in := code[at:]; in[0] & 0xffff {
		case opDecorate:
			switch in[2] {
			case specID:
				specs[in[3]] = true
			case binding:
				bindings[in[3]] = true
			}
		case opMemberDecorate:
			if in[3] == offset {
				ends[in[1]] = max(ends[in[1]], int(in[4])+4)
			}
		case opTypePointer:
			pointers[in[1]] = in[3]
		case opVariable:
			if in[3] == pushConstant {
				push = ends[pointers[in[1]]]
			}
		}
	}
	for id := range specs {
		if int(id) >= 2+len(c.spec) {
			t.Errorf("%s takes constant %d, and is given those before %d", c.shader, id, 2+len(c.spec))
		}
	}
	for id := range bindings {
		if int(id) >= len(c.bind) {
			t.Errorf("%s takes binding %d of %d", c.shader, id, len(c.bind))
		}
	}
	if push > 4*len(c.push) {
		t.Errorf("%s takes %d bytes of push constants, and is given %d", c.shader, push, 4*len(c.push))
	}
}
