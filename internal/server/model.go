package server

import (
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/vision"
)

// ModelOptions are the choices made when a model is given to a server.
type ModelOptions struct {
	Name        string         // for clients
	Aliases     []string       // all names, if there are several
	Tags        []string       // for lists
	Path        string         // of the model's file
	Demo        bool           // the embedded model, which tells tales and is not for conversations
	Slots       int            // requests that generate at a time
	SlotContext int            // limit on the tokens of prompt and text; 0: the engine's context
	Queue       int            // further requests that may wait
	Predict     int            // tokens that an answer has at most where a request does not say; -1: no limit
	Sampling    sample.Options // where a request says nothing else
	Template    *chat.Template
	Tower       *vision.Tower // shows pictures to the model; nil: it reads text only
	Stop        []string      // texts that end every answer of a chat
	Kwargs      Kwargs        // variables of the chat template
	Plan        *planner.Plan // what was planned for GPUs; nil: nothing
	Pooling     engine.Pooling
	Similar     bool // documents are ranked by their embeddings' similarity to the query's
	Norm        int  // norm of embeddings in llama-server's form, if a request does not say it: see Normalise
	Log         *slog.Logger
	Meter       Meter // nil: nobody counts

	Verbose        bool                   // answers in OpenAI's form have their texts in llama-server's own, too, where a request says nothing else
	LogPrompts     bool                   // the log has prompts and answers
	ThinkingBudget *int                   // tokens of a thought where a request does not say; nil: no limit
	Thoughts       answer.ReasoningFormat // where thoughts go in OpenAI's form, where a request does not say
	NoReuse        bool                   // prompts are read from their beginning where a request does not say
	HideSlots      bool                   // /slots shows nothing
	SuffixFirst    bool                   // an infill's suffix comes before its prefix
	SlotPath       string                 // folder of saved slots; empty: none are saved
	Keep           int                    // tokens of a prompt that stay then, where a request says nothing
	Shift          bool                   // if the context is full, a text continues without its oldest tokens

	// Restrict, if set, returns a text's constraint, given that of its request; nil: none. Tests use it to script
	// models.
	Restrict func(*Generation, sample.Constraint) sample.Constraint
}

// A Model is a loaded model that answers requests.
type Model struct {
	ModelOptions
	Engine  *engine.Engine
	Count   ModelMeter
	slots   *slots
	waiting atomic.Int64 // texts in the server, including those being generated
	ends    []int32      // tokens that end a text

	adapted    sync.Map // the notes that were logged, see noteAdapted
	grammars   grammars // compiled for past requests
	vocabulary func() (*grammar.Vocabulary, error)
	formats    func() (plain, tools *answer.Format) // formats of answers in conversations without tools and with them
}

// NewModel returns a model of e, which stays the caller's.
func NewModel(e *engine.Engine, o ModelOptions) *Model {
	m := &Model{ModelOptions: o, Engine: e, slots: newSlots(o.Slots)}
	m.Count = unmetered{}
	if o.Meter != nil {
		m.Count = o.Meter.Model(o.Name)
	}
	tok := e.Tokenizer()
	for id := range int32(tok.Size()) {
		if tok.IsEOG(id) {
			m.ends = append(m.ends, id)
		}
	}
	m.vocabulary = sync.OnceValues(func() (*grammar.Vocabulary, error) { return session.Vocabulary(tok) })
	m.formats = sync.OnceValues(func() (plain, tools *answer.Format) {
		return formatOf(o.Template, false), formatOf(o.Template, true)
	})
	return m
}

func formatOf(t *chat.Template, tools bool) *answer.Format {
	can := t.Can(tools)
	return answer.FormatOf(t.Source(), can.Tools, can.ToolCalls)
}

// FileName returns the name of the model's file without its folder, which clients are not told.
func (m *Model) FileName() string {
	if m.Path == "" {
		return ""
	}
	return filepath.Base(m.Path)
}

// OnDisk says how much of the experts or neurons that stay on disk RAM has room for.
type OnDisk struct {
	Units     int64 `json:"units"`
	Kept      int64 `json:"kept_units"`
	Bytes     int64 `json:"bytes"` // bytes of RAM that all would take
	KeptBytes int64 `json:"kept_bytes"`
}

// OnDisk returns what of the model stays on disk; nil: nothing does.
func (m *Model) OnDisk() *OnDisk {
	u := m.Engine.UnitUse()
	if u.Units == 0 {
		return nil
	}
	return &OnDisk{u.Units, u.Slots, u.OnDisk, u.Kept}
}

// Thinks reports whether the model was trained to think before it answers, as its template shows.
func (m *Model) Thinks() bool {
	plain, _ := m.formats()
	_, end, _ := plain.Thought("")
	return end != ""
}

// Context returns the number of tokens that a text may have with its prompt.
func (m *Model) Context() int {
	if m.SlotContext > 0 {
		return min(m.SlotContext, m.Engine.Context())
	}
	return m.Engine.Context()
}

// Busy reports of each slot whether a request generates in it.
func (m *Model) Busy() []bool {
	all := make([]bool, m.Slots)
	for i, s := range m.SlotStates() {
		all[i] = s.Busy
	}
	return all
}

// Load returns how many texts are being generated, and how many wait.
func (m *Model) Load() (running, waiting int) {
	for _, busy := range m.Busy() {
		if busy {
			running++
		}
	}
	return running, max(0, int(m.waiting.Load())-running)
}
