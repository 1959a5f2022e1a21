package main

import (
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// looking shows how much of a prompt's pictures is computed, as Generation.Looking is told.
func looking() func(done, total int) {
	bar := progress.New("looking at the pictures", progress.Time)
	return func(done, total int) {
		if done == total {
			bar.Finish()
			return
		}
		bar.Count(done, total)
	}
}

// plannedTower returns a sentence about what the model's tower takes; empty: there is none.
func plannedTower(c *cli.Command, m *planner.Machine) (string, error) {
	if c.IsSet("describe") {
		return "", nil
	}
	tower, err := flags.ReadTower(c)
	if err != nil {
		return "", err
	}
	f, err := openModel(c)
	if err != nil {
		return "", err
	}
	defer f.Close()
	e := engine.Options{Limits: engine.Limits{Batch: c.Int("batch-size"), UBatch: c.Int("ubatch-size")}}
	need, found, err := session.NeedOfTower(f, &tower, e.PictureStep())
	if !found || err != nil {
		return "", err
	}
	text := "Pictures: " + need.String()
	if rate := m.Products(); rate > 0 {
		text += fmt.Sprintf(", for about %.1f s", float64(need.Products)/rate)
	}
	return text + ", if the processor computes it. A GPU does where it has room.", nil
}
