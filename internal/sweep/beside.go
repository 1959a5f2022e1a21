package sweep

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/tokenizer"
)

// Beside is another file with the same vocabulary, such as the same model in a smaller type. It is computed whole, and
// compared with the swept file's dense predictions, as the swept file's settings are.
type Beside struct {
	Path string
	Open func() (*gguf.File, error) // whoever gets the file closes it
}

// subject is a file that is measured.
type subject struct {
	open   func() (*gguf.File, error)
	file   *gguf.File // only its header is read; settings open their models by open
	config model.Config
	digest string
	size   int64           // bytes of the weights
	cost   placement.Model // for weights read in addition to feed-forward layers
	typ    string          // type of most neurons' rows
}

// openSubject reads a file's header. so says how it is opened later.
func openSubject(open func() (*gguf.File, error), so *session.Options) (_ *subject, err error) {
	s := &subject{open: open}
	if s.file, err = open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.file.Close())
		}
	}()
	if s.config, err = model.ReadConfig(s.file, so.Engine.Activation); err != nil {
		return nil, err
	}
	for _, t := range s.file.Tensors {
		s.size += t.Bytes()
	}
	cost, err := modelcost.Of(s.file, modelcost.Options{Neurons: model.Neurons{Sparse: model.Off, Activation: so.Engine.Activation}, Law: modelcost.UsualLaw()})
	if err != nil {
		return nil, err
	}
	s.cost, s.typ = cost.Model, cost.Type
	digest := s.file.Digest()
	s.digest = hex.EncodeToString(digest[:])
	return s, nil
}

// told returns what a report says of the file at path.
func (s *subject) told(path string) Model {
	name := s.config.Name
	if name == "" {
		name = filepath.Base(s.file.Path)
	}
	return Model{
		File: path, Name: name, Type: s.typ, Bytes: s.size, Layers: s.config.Layers, Neurons: s.config.FF, Activation: s.config.Act.Kind.String(), Digest: s.digest,
	}
}

// of returns the file that a setting belongs to.
func (l *lab) of(s Setting) *subject { return l.files[s.File] }

// setBeside reads the headers of the other files and adds their settings. tok is the swept file's tokenizer.
func (r *run) setBeside(tok *tokenizer.Tokenizer) error {
	var all []Setting
	for _, b := range r.o.Beside {
		f, err := openSubject(b.Open, &r.o.Session)
		if err != nil {
			return fmt.Errorf("%w; --beside takes GGUF files of the same vocabulary as the model", err)
		}
		if err := r.accept(b.Path, f, tok); err != nil {
			return errors.Join(fmt.Errorf("--beside %s: %w", b.Path, err), f.file.Close())
		}
		r.lab.files[b.Path] = f
		all = append(all, Setting{File: b.Path, Digest: f.digest, Mode: model.Off.String()})
	}
	r.settings = append(r.settings, r.o.Grid.placed(all, r.config.Threshold)...)
	return nil
}

// accept refuses a file that cannot be compared with the swept one, or that is named twice.
func (r *run) accept(path string, f *subject, tok *tokenizer.Tokenizer) error {
	for other, has := range r.lab.files {
		switch {
		case has.digest != f.digest:
		case other == "":
			return errors.New("this is the model that is swept; name another file, as the same model in a smaller type")
		default:
			return fmt.Errorf("this is the same model as --beside %s; name it once", other)
		}
	}
	if slices.ContainsFunc(r.settings, func(s Setting) bool { return s.Name() == path }) {
		return fmt.Errorf("a setting is called so; write ./%s", path)
	}
	if f.config.Context < r.lab.window {
		return fmt.Errorf("it was trained on %d tokens at a time, and windows have %d; give -c %d", f.config.Context, r.lab.window, f.config.Context)
	}
	own, err := model.Tokenizer(f.file)
	if err != nil {
		return err
	}
	const why = "predictions are compared token by token: name a file of the same model or family"
	if a, b := f.config.Vocab, r.config.Vocab; a != b {
		return fmt.Errorf("its vocabulary has %d tokens, that of the model %d; %s", a, b, why)
	}
	for id := range int32(min(own.Size(), tok.Size())) {
		if a, b := own.Piece(id, true), tok.Piece(id, true); !bytes.Equal(a, b) {
			return fmt.Errorf("token %d is %.40q in its vocabulary and %.40q in that of the model; %s", id, a, b, why)
		}
	}
	return r.possible(Setting{File: path, Mode: model.Off.String()}, f)
}

// labels returns the names of the other files' points: the last parts of their paths, if no other point has the same
// name.
func (r *run) labels() map[string]string {
	count := map[string]int{}
	for _, s := range r.settings {
		count[s.Name()]++
	}
	for _, b := range r.o.Beside {
		if base := filepath.Base(b.Path); base != b.Path {
			count[base]++
		}
	}
	all := map[string]string{}
	for _, b := range r.o.Beside {
		if all[b.Path] = b.Path; count[filepath.Base(b.Path)] == 1 {
			all[b.Path] = filepath.Base(b.Path)
		}
	}
	return all
}

// Comparison compares another file with the swept one's settings on a machine. It leaves out dense, which all
// divergences are measured from, and settings with another budget.
type Comparison struct {
	Machine  string   `json:"machine"` // empty: this one
	Name     string   `json:"name"`    // name of the file's point
	Rate     float64  `json:"tokens_per_second"`
	KLD      float64  `json:"kl_divergence"`
	Settings int      `json:"settings"` // that it is compared with
	Beats    []string `json:"beats"`    // that are further from dense and slower
	Loses    []string `json:"loses_to"` // that are nearer to dense and faster
	Better   bool     `json:"better"`   // it keeps the bounds, and is faster than the recommended setting
}

// compare compares every other file with the swept one. best may be nil; rate is recommend's: one point is faster than
// another if its rate is more than the other's greatest.
func (rep *Report) compare(machine string, best *Point, rate func(p *Point) (value, most float64)) {
	faster := func(a, b *Point) bool {
		v, _ := rate(a)
		_, most := rate(b)
		return v > most
	}
	for i := range rep.Points {
		f := &rep.Points[i]
		v, _ := rate(f)
		if f.File == "" || f.Quality == nil || v == 0 {
			continue
		}
		c := Comparison{Machine: machine, Name: f.Name, Rate: v, KLD: f.Quality.KLDivergence.Value, Better: f.Within && (best == nil || faster(f, best)), Beats: []string{}, Loses: []string{}}
		for k := range rep.Points {
			p := &rep.Points[k]
			if v, _ := rate(p); p.File != "" || p.Quality == nil || v == 0 || p.Budget != f.Budget || p.dense() {
				continue
			}
			c.Settings++
			switch kld := p.Quality.KLDivergence.Value; {
			case kld > c.KLD && faster(f, p):
				c.Beats = append(c.Beats, p.Name)
			case kld < c.KLD && faster(p, f):
				c.Loses = append(c.Loses, p.Name)
			}
		}
		rep.Beside = append(rep.Beside, c)
	}
}

// dense reports whether all other points are compared with this one, whatever it has on GPUs.
func (p *Point) dense() bool { return p.File == "" && p.Mode == model.Off.String() }

// Verdict says in a clause how the file does.
func (c *Comparison) Verdict() string {
	var line string
	switch n := len(c.Beats); {
	case c.Settings == 0:
		line = "there is no setting but dense to compare it with"
	case n == 0:
		line = "no setting is both further from dense and slower"
	case n == c.Settings:
		line = "nearer to dense and faster than every setting that leaves neurons out"
	default:
		line = fmt.Sprintf("nearer to dense and faster than %d of %d settings (%s)", n, c.Settings, strings.Join(c.Beats, ", "))
	}
	if len(c.Loses) > 0 {
		line += "; nearer and faster than it: " + strings.Join(c.Loses, ", ")
	}
	if c.Better {
		line += "; it keeps the bound, and no setting that does is as fast"
	}
	return line
}
