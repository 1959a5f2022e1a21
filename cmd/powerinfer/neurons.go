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

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuronreport"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// inspectNeurons prints f's statistics of neurons, and writes the report if a folder is named.
func inspectNeurons(f *gguf.File, report string, asJSON bool) error {
	p, err := reportOf(f)
	if err != nil {
		return err
	}
	if report != "" {
		if err := writeReport(report, p); err != nil {
			return err
		}
		fmt.Fprintln(screen.Err, "wrote", filepath.Join(report, reportPage), "and its pictures")
	}
	if asJSON {
		enc := json.NewEncoder(screen.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(p)
	}
	out := bufio.NewWriter(screen.Out)
	if err := p.Text(out); err != nil {
		return err
	}
	return out.Flush()
}

// reportOf reads the statistics of a prepared file, or of one that profile wrote.
func reportOf(f *gguf.File) (*neuronreport.Report, error) {
	name, _, err := f.String("general.name")
	if err != nil || name == "" {
		name = filepath.Base(f.Path)
	}
	info, ok, err := prepared.Read(f)
	if err != nil {
		return nil, err
	}
	if ok {
		return preparedReport(name, f, &info)
	}
	if use, hash, err := prepared.ReadExperts(f); err != nil {
		return nil, err
	} else if use != nil {
		p, err := neuronreport.NewExperts(name, use)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		p.Facts = []neuronreport.Fact{{Name: "calibration SHA-256", Value: hash}}
		return p, nil
	}
	stats, ok, err := prepared.ReadStats(f)
	if err == nil && !ok {
		err = fmt.Errorf("%s holds no statistics of neurons or experts: powerinfer profile counts them, powerinfer prepare stores them in a model", f.Path)
	}
	if err != nil {
		return nil, err
	}
	p, err := neuronreport.New(name, stats)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return p, nil
}

// preparedReport adds predictors and measurements to the report.
func preparedReport(name string, f *gguf.File, info *prepared.Info) (*neuronreport.Report, error) {
	p, err := neuronreport.New(name, info.Stats())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	p.Facts = facts(info)
	for l, y := range info.Layers {
		q := neuronreport.Predictor{
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

// facts returns what a prepared file says about itself.
func facts(info *prepared.Info) []neuronreport.Fact {
	var list []neuronreport.Fact
	add := func(name, format string, args ...any) {
		list = append(list, neuronreport.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
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
	reportReuse  = "reuse.png" // reuse of experts
)

func reportFiles() []string {
	return []string{reportPage, reportCurves, reportRanks, reportMap, reportReuse}
}

// checkReport refuses a folder with a page or pictures of a report's names, unless an earlier report wrote them.
// Pictures do not show their origin, but the page next to them does.
func checkReport(dir string) error {
	page := filepath.Join(dir, reportPage)
	if err := atomicfile.Check(page, atomicfile.Matches("a report's page", `(?s)^<!doctype html>.*<title>(Neurons|Experts) of `)); err != nil {
		return err
	}
	_, err := os.Stat(page)
	again := err == nil
	for _, name := range reportFiles() {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil && !again {
			return fmt.Errorf("%s exists and %s does not: name another folder, or remove the picture if an earlier report left it", path, reportPage)
		}
		if err := atomicfile.Check(path, atomicfile.Kind{}); err != nil {
			return err
		}
	}
	return nil
}

// writeReport writes one page with everything, and its pictures as separate files.
func writeReport(dir string, p *neuronreport.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return fmt.Errorf("the report's folder %s cannot be made: %w", dir, err)
	}
	if err := checkReport(dir); err != nil {
		return err
	}
	type file struct {
		name  string
		write func(io.Writer) error
	}
	files := []file{{reportPage, p.Report}, {reportCurves, p.Curves}, {reportRanks, p.Ranks}, {reportMap, p.HeatMap}}
	if p.Experts != nil {
		files = append(files, file{reportReuse, p.Reuse})
	}
	var written []*atomicfile.File
	for _, file := range files {
		f, err := atomicfile.Create(filepath.Join(dir, file.name), atomicfile.Kind{Shared: true})
		if err != nil {
			return err
		}
		defer f.Abort()
		out := bufio.NewWriter(f)
		err = file.write(out)
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return atomicfile.Writing(filepath.Join(dir, file.name), err)
		}
		written = append(written, f)
	}
	return atomicfile.Commit(written...)
}
