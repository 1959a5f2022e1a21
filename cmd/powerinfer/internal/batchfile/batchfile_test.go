package batchfile

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// TestRead: a bad line is refused with its number.
func TestRead(t *testing.T) {
	good, err := Read("in", "{\"prompt\":\"a\"}\n\n{\"id\":\"x\",\"prompt\":\"b\",\"temperature\":0.5,\"stop\":[\"c\"]}\n{\"id\":-7,\"prompt\":\"d\"}")
	if err != nil || len(good) != 3 || string(good[0].ID) != "1" || string(good[1].ID) != `"x"` || good[1].numbers["temperature"] != 0.5 || len(good[1].numbers) != 1 {
		t.Errorf("%+v, %v", good, err)
	}
	for text, want := range map[string]string{
		"":                                   "holds no prompts",
		`{"prompt":3}`:                       "line 1: prompt cannot be a JSON number; docs/batch.md",
		`[1]`:                                "line 1: there is a JSON array where an object belongs",
		"{\"prompt\":\"a\"}\n{\"prompt\":1}": "line 2",
		`{"prompt":"a","temprature":1}`:      "temprature",
		`{"prompt":"a"} {"prompt":"b"}`:      "more than one object",
		`{"prompt":""}`:                      "no prompt",
		`{"id":[1],"prompt":"a"}`:            "neither a text nor a number",
		"{\"id\":2,\"prompt\":\"a\"}\n{\"prompt\":\"b\"}": "lines 1 and 2 both have id 2",
	} {
		if _, err := Read("in", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestFields: each field of powerinfer.Sampling has a field in a line, and a line's grammar replaces the flags' schema.
func TestFields(t *testing.T) {
	line := `{"prompt":"a","n_predict":0,"seed":7,"temperature":0.1,"dynatemp_range":0.2,"dynatemp_exponent":0.3,"top_k":1,"top_p":0.4,"min_p":0.15,
		"top_n_sigma":0.6,"typical_p":0.7,"xtc_probability":0.8,"xtc_threshold":0.2,"repeat_last_n":-1,"repeat_penalty":1.1,"presence_penalty":1.2,
		"frequency_penalty":1.3,"dry_multiplier":1.4,"dry_base":1.5,"dry_allowed_length":3,"dry_penalty_last_n":5,"dry_sequence_breakers":["x"],
		"min_keep":2,"mirostat":2,"mirostat_tau":1.6,"mirostat_eta":1.7,"adaptive_target":0.9,"adaptive_decay":0.5,"ignore_eos":true,
		"samplers":["top_k","temperature"],"logit_bias":[[3,1.5],["king",false]],"grammar":"root ::= \"b\""}`
	all, err := Read("in", strings.ReplaceAll(line, "\n", " "))
	if err != nil {
		t.Fatal(err)
	}
	m, err := powerinfer.OpenBytes(t.Context(), demo.Name, demo.Model(), powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Limits: powerinfer.Limits{Context: 128}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	usual := powerinfer.DefaultSampling()
	g, err := all[0].Generation(powerinfer.Generation{Sampling: &usual, Schema: "{}", Max: 5}, m)
	if err != nil {
		t.Fatal(err)
	}
	was, is := powerinfer.DefaultSampling(), *g.Sampling
	for _, n := range sample.Numbers() {
		if n.Get(&was) == n.Get(&is) {
			t.Errorf("%s is %v, as without the line", n.Field, n.Get(&is))
		}
	}
	if !reflect.DeepEqual(was, usual) {
		t.Error("the line changed what the flags say")
	}
	s := g.Sampling
	if s.Seed != 7 || s.MinP != 0.15 || s.RepeatLastN != 128 || s.DRY.Breakers[0] != "x" || s.LogitBias[3] != 1.5 || strings.Join(s.Samplers, ";") != "top_k;temperature" {
		t.Errorf("%+v", s)
	}
	for _, id := range m.Tokenize("king", false, true) {
		if !math.IsInf(float64(s.LogitBias[id]), -1) {
			t.Errorf("token %d of a banned text has the bias %v", id, s.LogitBias[id])
		}
	}
	if g.Schema != "" || g.Grammar == "" || g.Max >= 0 || !g.IgnoreEnd {
		t.Errorf("%+v", g)
	}
	for line, want := range map[string]string{
		`{"prompt":"a","samplers":3}`:              "neither a list of names nor",
		`{"prompt":"a","samplers":"q"}`:            "no sampler has the letter",
		`{"prompt":"a","logit_bias":[[1,2,3]]}`:    "no pair",
		`{"prompt":"a","logit_bias":{"1":"x"}}`:    "neither a number nor false",
		`{"prompt":"a","logit_bias":"1"}`:          "neither an object nor a list",
		`{"prompt":"a","logit_bias":{"1":null}}`:   "neither a number nor false",
		`{"prompt":"a","logit_bias":[[1.5,2]]}`:    "1.5",
		`{"prompt":"a","logit_bias":[[true,2]]}`:   "true",
		`{"prompt":"a","samplers":["top_k",null]}`: "neither a list of names nor",
	} {
		all, err := Read("in", line)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all[0].Generation(powerinfer.Generation{Sampling: &usual}, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// TestNull: a null field counts as absent.
func TestNull(t *testing.T) {
	m, err := powerinfer.OpenBytes(t.Context(), demo.Name, demo.Model(), powerinfer.Options{GPU: powerinfer.GPUs{Devices: powerinfer.NoGPU}, Limits: powerinfer.Limits{Context: 128}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	usual := powerinfer.DefaultSampling()
	var without powerinfer.Generation
	for i, line := range []string{
		`{"prompt":"a"}`,
		`{"id":null,"prompt":"a","n_predict":null,"stop":null,"ignore_eos":null,"grammar":null,"json_schema":null,"samplers":null,"logit_bias":null,"seed":null,"top_k":null}`,
	} {
		all, err := Read("in", line)
		if err != nil {
			t.Fatal(err)
		}
		g, err := all[0].Generation(powerinfer.Generation{Sampling: &usual, Max: 5}, m)
		if err != nil || string(all[0].ID) != "1" {
			t.Errorf("%s: id %s, %v", line, all[0].ID, err)
		}
		if i == 0 {
			without = g
		} else if !reflect.DeepEqual(g, without) {
			t.Errorf("%s: %+v and %+v, without the fields %+v and %+v", line, g, g.Sampling, without, without.Sampling)
		}
	}
}

// TestResumes: the incomplete last line of an interrupted batch is cut off, whole lines stay, and other files are
// refused unchanged.
func TestResumes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.jsonl")
	whole := "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":2,\"error\":\"y\"}\n"
	if err := os.WriteFile(name, []byte(whole+`{"id":3,"te`), 0o666); err != nil {
		t.Fatal(err)
	}
	a, err := Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	text := "z\u2028<"
	if err := a.Write(&Answer{ID: json.RawMessage("3"), Text: &text}); err != nil {
		t.Fatal(err)
	}
	a.Close()
	got, _ := os.ReadFile(name)
	if rest, ok := strings.CutPrefix(string(got), whole); !ok || strings.Count(rest, "\n") != 1 || !strings.HasPrefix(rest, `{"id":3,"text":"z`) {
		t.Errorf("the output is %q", got)
	}
	if !a.done[`"a"`] || !a.done["2"] || len(a.done) != 2 {
		t.Errorf("%v are done", a.done)
	}
	for _, other := range []string{"a text\n", "GGUF", whole + "[1]\n"} {
		if err := os.WriteFile(name, []byte(other), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(t.Context(), name); err == nil || !strings.Contains(err.Error(), "name another file") {
			t.Errorf("%q: %v", other, err)
		}
		if now, _ := os.ReadFile(name); !slices.Equal(now, []byte(other)) {
			t.Errorf("%q became %q", other, now)
		}
	}
}
