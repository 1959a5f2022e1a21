package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// details describes a model to clients, which show it.
type details struct {
	Parent        string   `json:"parent_model"`
	Format        string   `json:"format"`
	Family        string   `json:"family"`
	Families      []string `json:"families"`
	ParameterSize string   `json:"parameter_size"`
	Quant         string   `json:"quantization_level"`
}

// entry is a model of a list.
type entry struct {
	Name     string    `json:"name"`
	Model    string    `json:"model"`
	Modified time.Time `json:"modified_at"`
	Size     int64     `json:"size"`
	Digest   string    `json:"digest"`
	Details  details   `json:"details"`
	Can      []string  `json:"capabilities"`
}

// loaded is a model in the list of models in memory.
type loaded struct {
	Name    string    `json:"name"`
	Model   string    `json:"model"`
	Size    int64     `json:"size"`
	Digest  string    `json:"digest"`
	Details details   `json:"details"`
	Expires time.Time `json:"expires_at"`
	VRAM    int64     `json:"size_vram"`
	Context int       `json:"context_length"`
}

func (a *api) tags(w http.ResponseWriter, _ *http.Request) error {
	all := []entry{}
	for _, l := range a.s.Models.List() {
		all = append(all, entry{l.Name, l.Name, l.Modified, l.Size, digest(&l), detailsOf(&l), capabilities(&l)})
	}
	server.WriteJSON(w, map[string]any{"models": all})
	return nil
}

// capabilities returns a model's capabilities for lists, without those that need a look at its template, which only
// /api/show has.
func capabilities(l *server.Listed) []string {
	can := []string{"completion", "tools"}
	if l.CanSee() {
		can = append(can, "vision")
	}
	return can
}

func (a *api) running(w http.ResponseWriter, _ *http.Request) error {
	all := []loaded{}
	for _, l := range a.s.Models.List() {
		if l.Model == nil {
			continue
		}
		if l.Expires.IsZero() {
			l.Expires = time.Now().Add(longest)
		}
		all = append(all, loaded{l.Name, l.Name, l.Memory, digest(&l), detailsOf(&l), l.Expires, l.GPU, l.Model.Context()})
	}
	server.WriteJSON(w, map[string]any{"models": all})
	return nil
}

// digest identifies a model's file: by its SHA-256 if the hub's cache knows it, else by a hash of its path, size and
// time.
func digest(l *server.Listed) string {
	if target, err := filepath.EvalSymlinks(l.Path); err == nil {
		if blob := filepath.Base(target); len(blob) == hex.EncodedLen(sha256.Size) && filepath.Base(filepath.Dir(target)) == "blobs" {
			return blob
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", l.Path, l.Size, l.Modified.UnixNano()))
	return hex.EncodeToString(sum[:])
}

// open returns a model's file, or nil if it cannot be read.
func open(l *server.Listed) *gguf.File {
	f, err := gguf.Open(l.Path)
	if err != nil {
		return nil
	}
	return f
}

func detailsOf(l *server.Listed) details {
	d := details{Format: "gguf", Families: []string{}}
	if f := open(l); f != nil {
		defer f.Close()
		d = describe(f)
	} else if l.Model != nil { // embedded in the program
		d.Family = l.Model.Engine.Config().Arch
		d.Families = []string{d.Family}
	}
	if l.CanSee() { // older clients know by this that a model sees
		d.Families = append(d.Families, "clip")
	}
	return d
}

func describe(f *gguf.File) details {
	h := hub.Describe(f)
	return details{
		Format: "gguf", Family: h.Architecture, Families: []string{h.Architecture}, ParameterSize: count(h.Parameters), Quant: h.Quant,
	}
}

// count returns a number of parameters as people write it.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fK", float64(n)/1e3)
}

func (a *api) show(w http.ResponseWriter, _ *http.Request, f *server.Fields) error {
	name, verbose := nameOf(f), false
	f.Read("verbose", &verbose)
	server.Unused[string](f, "system", "template")
	readValues(f)
	if err := f.Close(); err != nil {
		return err
	}
	known := a.s.Known(name)
	for _, l := range a.s.Models.List() {
		if l.Name == known || name == "" {
			server.WriteJSON(w, shownOf(&l, verbose))
			return nil
		}
	}
	return server.NotFound("model '%s' not found", name)
}

// shown is the answer to /api/show.
type shown struct {
	Licence      string         `json:"license,omitempty"`
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	Details      details        `json:"details"`
	Info         map[string]any `json:"model_info"`
	Tensors      []tensor       `json:"tensors,omitempty"`
	Capabilities []string       `json:"capabilities"`
	Modified     time.Time      `json:"modified_at"`
}

type tensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
}

func shownOf(l *server.Listed, verbose bool) shown {
	s := shown{
		Modelfile: "FROM " + l.Name + "\n", Details: detailsOf(l), Info: map[string]any{},
		Capabilities: capabilities(l), Modified: l.Modified,
	}
	var template *chat.Template
	if f := open(l); f != nil {
		defer f.Close()
		s.Licence = hub.Describe(f).Licence
		s.addInfo(f, verbose)
		template, _ = chat.FromGGUF(f, "") // a file without one has none to show
	}
	thinks := false
	if l.Model != nil {
		template, thinks = l.Model.Template, l.Model.Thinks()
		s.Parameters = parameters(l.Model)
	} else if template != nil {
		can := template.Can(false)
		_, end, _ := answer.FormatOf(template.Source(), can.Tools, can.ToolCalls).Thought("")
		thinks = end != ""
	}
	if template != nil {
		s.Template = template.Source()
	}
	if thinks {
		s.Capabilities = append(s.Capabilities, "thinking")
	}
	return s
}

// parameters returns how the model's texts are drawn unless a request says otherwise, as a Modelfile has it.
func parameters(m *server.Model) string {
	var b strings.Builder
	o := &m.Sampling
	fmt.Fprintf(&b, "num_ctx %d\ntemperature %v\ntop_k %d\ntop_p %v\nmin_p %v\nrepeat_penalty %v\n", m.Context(), o.Temperature, o.TopK, o.TopP, o.MinP, o.RepeatPenalty)
	for _, s := range m.Stop {
		fmt.Fprintf(&b, "stop %q\n", s)
	}
	return b.String()
}

// addInfo adds the file's metadata. Lists, which may have hundreds of thousands of elements, are null unless the client
// wants them.
func (s *shown) addInfo(f *gguf.File, verbose bool) {
	for _, k := range f.Keys {
		_, err := json.Marshal(k.Value) // not a number, perhaps
		if list := reflect.ValueOf(k.Value).Kind() == reflect.Slice; list && !verbose || err != nil {
			k.Value = nil
		}
		if path, ok := k.Value.(string); ok && strings.HasPrefix(k.Key, "quantize.imatrix.") { // a path on the machine that quantized the model, perhaps this one
			k.Value = filepath.Base(path)
		}
		s.Info[k.Key] = k.Value
	}
	s.Info["general.parameter_count"] = hub.Describe(f).Parameters
	if !verbose {
		return
	}
	for _, t := range f.Tensors {
		s.Tensors = append(s.Tensors, tensor{t.Name, t.Type.String(), t.Shape})
	}
}
