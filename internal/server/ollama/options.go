package ollama

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// longest is the time from which on a model is kept as long as it can be.
const longest = 100 * 365 * 24 * time.Hour

// fixed are options that hold for a loaded model: they were chosen when the server was started.
var fixed = []string{
	"num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "use_mmap", "use_mlock", "low_vram", "f16_kv", "vocab_only", "numa", "logits_all",
	"embedding_only", "draft_num_predict", "penalize_newline", "tfs_z",
}

// numbers returns the numeric options, including those without effect.
func numbers() []string {
	names := []string{"num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "num_predict", "draft_num_predict", "seed"}
	for _, n := range sample.Numbers() {
		names = append(names, n.JSON)
	}
	return names
}

// readValues reads the options, by their names.
func readValues(f *server.Fields) map[string]any {
	var values map[string]any
	f.Read("options", &values)
	maps.DeleteFunc(values, func(_ string, v any) bool { return v == nil })
	numbers := numbers()
	for name, v := range values {
		_, number := v.(float64)
		_, truth := v.(bool)
		_, list := v.([]any)
		switch {
		case slices.Contains(numbers, name) && !number:
			f.Fail(server.Invalid("option %q must be a number", name))
		case name == "use_mmap" && !truth:
			f.Fail(server.Invalid("option %q must be true or false", name))
		case name == "stop" && !list:
			f.Fail(server.Invalid("option %q must be a list of texts", name))
		}
	}
	return values
}

// readOptions reads the options, which are llama-server's fields except for a few names.
func (a *api) readOptions(f *server.Fields, m *server.Model) server.Generation {
	values := readValues(f) // numbers are written again: clients may send 40.0 for 40
	if n, ok := values["num_predict"].(float64); ok && n > 0 {
		values["n_predict"] = n
	}
	delete(values, "num_predict")
	if n, ok := values["num_ctx"].(float64); ok && int(min(n, 1<<40)) > m.Context() {
		a.s.Options().Log.Warn("a request asks for a longer context than the server has; its prompt has to fit", "num_ctx", n, "context", m.Context())
	}
	delete(values, "num_ctx")
	raw, err := json.Marshal(values)
	if err != nil || values == nil {
		raw = json.RawMessage("{}")
	}
	options, err := f.Within(raw)
	if err != nil {
		f.Fail(err)
		return server.Generation{}
	}
	g := m.ReadGeneration(options)
	options.Ignore(fixed...)
	if err := options.Close(); err != nil {
		f.Fail(err)
	}
	return g
}

// readFormat reads the field format: "json", or a JSON Schema.
func readFormat(f *server.Fields, m *server.Model, g *server.Generation) {
	raw := f.Raw("format")
	var name string
	switch {
	case raw == nil || string(raw) == `""`:
		return
	case json.Unmarshal(raw, &name) == nil:
		if raw = json.RawMessage(`{"type":"object"}`); name != "json" {
			f.Fail(server.Invalid(`the field format is neither "json" nor a JSON Schema`))
			return
		}
	}
	if raw[0] != '{' {
		f.Fail(server.Invalid(`the field format is neither "json" nor a JSON Schema`))
	} else if err := m.HoldSchema(g, raw, false); err != nil {
		f.Fail(server.Unusable(err, "the schema in the field format cannot be used"))
	}
}

// readThink reads the field think: whether the model thinks, or how much.
func readThink(f *server.Fields, m *server.Model, name string, c *server.Conversation) {
	raw := f.Raw("think")
	if raw == nil {
		return
	}
	var on bool
	var effort string
	switch {
	case json.Unmarshal(raw, &on) == nil:
	case json.Unmarshal(raw, &effort) == nil && (effort == "low" || effort == "medium" || effort == "high" || effort == "max"):
		if on = true; effort == "max" {
			effort = "high" // the most that templates commonly know
		}
		c.Kwargs["reasoning_effort"] = json.RawMessage(`"` + effort + `"`)
	default:
		f.Fail(server.Invalid(`the field think is none of true, false, "low", "medium", "high" and "max"`))
		return
	}
	if on && !m.Thinks() {
		f.Fail(server.Invalid("%q does not support thinking", name))
	}
	c.Think(on)
}

// readKeep reads how long the model is kept: seconds, or a text such as "5m"; negative: as long as it can be. nil where
// nothing is said.
func readKeep(f *server.Fields) *time.Duration {
	raw := f.Raw("keep_alive")
	if raw == nil {
		return nil
	}
	var seconds float64
	var text string
	keep := time.Duration(-1)
	switch {
	case json.Unmarshal(raw, &seconds) == nil:
		if seconds >= 0 && seconds < longest.Seconds() {
			keep = time.Duration(seconds * float64(time.Second))
		}
	default:
		err := json.Unmarshal(raw, &text)
		if err == nil {
			keep, err = time.ParseDuration(text)
		}
		if err != nil {
			f.Fail(server.Invalid(`the field keep_alive is neither a number of seconds nor a time such as "5m"`))
			return nil
		}
	}
	return &keep
}
