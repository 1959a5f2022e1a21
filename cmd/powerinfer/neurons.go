package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/outfile"
	"github.com/powerinfer-go/powerinfer/internal/portrait"
	"github.com/powerinfer-go/powerinfer/internal/prepare"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// inspectNeurons prints what is known of f's neurons, and writes the report to a folder if one is named.
func inspectNeurons(f *gguf.File, report string, asJSON bool) error {
	p, err := portraitOf(f)
	if err != nil {
		return err
	}
	if report != "" {
		if err := writeReport(report, p); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "wrote", filepath.Join(report, reportPage), "and its pictures")
	}
	if asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	}
	out := bufio.NewWriter(os.Stdout)
	if err := p.Text(out); err != nil {
		return err
	}
	return out.Flush()
}

// portraitOf reads the statistics of a prepared file, or of one that profile wrote.
func portraitOf(f *gguf.File) (*portrait.Portrait, error) {
	name, _, err := f.String("general.name")
	if err != nil || name == "" {
		name = filepath.Base(f.Path)
	}
	info, ok, err := prepared.Read(f)
	if err != nil {
		return nil, err
	}
	if ok {
		return preparedPortrait(name, f, &info)
	}
	stats, ok, err := prepare.StatsOf(f)
	if err == nil && !ok {
		err = fmt.Errorf("%s holds no statistics of neurons: powerinfer profile counts them, powerinfer prepare stores them in a model", f.Path)
	}
	if err != nil {
		return nil, err
	}
	return newPortrait(name, f, stats)
}

func newPortrait(name string, f *gguf.File, s *neuron.Stats) (*portrait.Portrait, error) {
	p, err := portrait.New(name, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return p, nil
}

// preparedPortrait has predictors and what was measured, too.
func preparedPortrait(name string, f *gguf.File, info *prepared.Info) (*portrait.Portrait, error) {
	p, err := newPortrait(name, f, info.Stats())
	if err != nil {
		return nil, err
	}
	p.Facts = facts(info)
	for l, y := range info.Layers {
		q := portrait.Predictor{
			Mode: string(y.Mode), Rank: y.Rank, AlwaysOn: y.AlwaysOn, Measured: info.HeldOut != prepared.Text{},
			Recall: float64(y.Recall), Found: float64(y.Found), Precision: float64(y.Precision), Accuracy: float64(y.Accuracy),
		}
		for _, name := range []string{"fc1", "fc2"} {
			if t := f.Tensor(fmt.Sprintf("blk.%d.%s.weight", l, name)); t != nil {
				q.Bytes += int64(len(t.Data))
			}
		}
		p.Predictors = append(p.Predictors, q)
	}
	return p, nil
}

// facts are what a prepared file says of itself.
func facts(info *prepared.Info) []portrait.Fact {
	var list []portrait.Fact
	add := func(name, format string, args ...any) {
		list = append(list, portrait.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	activation := info.Activation
	if activation == "fatrelu" {
		activation += " above " + strconv.FormatFloat(float64(info.ActivationThreshold), 'g', -1, 32)
	}
	add("activation", "%s", activation)
	add("predictors read", "the %s stream; a neuron is computed from a logit of %g", info.Input, info.Threshold)
	add("calibration SHA-256", "%s", info.Calibration.SHA256)
	if info.HeldOut != (prepared.Text{}) {
		add("held-out tokens", "%d", info.HeldOut.Tokens)
		add("held-out SHA-256", "%s", info.HeldOut.SHA256)
	}
	if q := info.Quality; q != nil {
		add("quality", "KL divergence %.5f; perplexity %.4f dense, %.4f predicted", q.KLDivergence, q.PerplexityDense, q.PerplexityPredict)
	}
	return list
}

// The files of a report.
const (
	reportPage   = "report.html"
	reportCurves = "curves.png"
	reportRanks  = "ranks.png"
	reportMap    = "map.png"
)

// writeReport writes one page with everything, and its pictures as files of their own.
func writeReport(dir string, p *portrait.Portrait) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return fmt.Errorf("the report's folder %s cannot be made: %w", dir, err)
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{reportPage, p.Report}, {reportCurves, p.Curves}, {reportRanks, p.Ranks}, {reportMap, p.HeatMap}} {
		err := outfile.Write(filepath.Join(dir, file.name), func(f *outfile.File) error { return file.write(f) })
		if err != nil {
			return err
		}
	}
	return nil
}
