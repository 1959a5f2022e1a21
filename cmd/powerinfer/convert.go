package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

func convertCommand() *cli.Command {
	return &cli.Command{
		Name: "convert", UsageText: `powerinfer convert hugging-face-folder --outfile model.gguf --outtype f16
powerinfer convert hugging-face-folder --mmproj
powerinfer convert peft-folder --base hugging-face-folder --outfile lora.gguf`, Usage: "turn a Hugging Face folder into a GGUF file", ArgsUsage: "FOLDER [PREDICTORS]",
		Description: `A folder of a LoRA adapter, as PEFT saves it, becomes a GGUF adapter for --lora; --base
names the folder of the model that it is for. With --mmproj, the part of a model that sees
pictures becomes a file of its own, which --mmproj of other commands reads beside the
model's; without it, the rest does. With PREDICTORS, a folder of published predictors
(model_0.pt, model_1.pt, ..., config.json), the model becomes a file of the original
PowerInfer, with the predictors in it. With --format original and a prepared file instead of
FOLDER, that file is rewritten so that the original PowerInfer loads it.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "outfile", Aliases: []string{"o"}, Usage: "GGUF `FILE` to write, in whose name {ftype} stands for the type; default: FOLDER-TYPE.gguf here, with --mmproj mmproj-FOLDER-TYPE.gguf"},
			&cli.StringFlag{Name: "outtype", Value: "f16", Usage: "`TYPE` of the matrices: " + convert.OutTypes() + "; auto: bf16 if most of the folder's matrices are, else f16; with predictors f16 or q4_0"},
			&cli.BoolFlag{Name: "mmproj", Usage: "write the file of the tower for pictures, of a model that has one: f32, f16, bf16 or q8_0"},
			&cli.StringFlag{Name: "base", Usage: "`FOLDER` with the config.json of the model that an adapter is for; default: as the adapter says"},
			&cli.StringFlag{Name: "target-model-dir", Usage: "`FOLDER` of the model that a draft head (EAGLE-3, DFlash) is for: the head has its tokenizer"},
			&cli.StringFlag{Name: "model-name", Usage: "`NAME` to write as general.name; default: config.json's, else FOLDER's"},
			&cli.BoolFlag{Name: "no-mtp", Aliases: []string{"no-nextn"}, Usage: "leave out layers that predict further tokens (multi-token prediction), which only run --spec-type draft-mtp and llama.cpp use"},
			&cli.StringFlag{Name: "format", Usage: "`FORM` of the file: gguf, or original (default with PREDICTORS)"},
		},
		Action: convertModel,
	}
}

func convertModel(ctx context.Context, c *cli.Command) error {
	format := c.String("format")
	dir, predictors := c.Args().Get(0), c.Args().Get(1)
	info, err := os.Stat(dir)
	file := err == nil && !info.IsDir()
	switch {
	case c.NArg() < 1 || c.NArg() > 2:
		return errors.New("give one Hugging Face folder: powerinfer convert FOLDER --outfile FILE")
	case errors.Is(err, fs.ErrNotExist):
		hint := ""
		if _, failed := hub.ParseName(dir); failed == nil {
			hint = fmt.Sprintf("; convert downloads nothing: hf download %s --local-dir FOLDER fetches a repository of the Hugging Face hub", dir)
		}
		return fmt.Errorf("there is no folder %s%s", dir, hint)
	case format != "" && format != "gguf" && format != "original":
		return fmt.Errorf("--format: %.80q is neither gguf nor original", format)
	case file && (format != "original" || predictors != ""):
		return fmt.Errorf("%s is a file; convert takes a Hugging Face folder, or a prepared file and --format original", dir)
	case file && c.IsSet("outtype"):
		return errors.New("--outtype: a prepared file keeps its types")
	case predictors == "" && format == "original" && !file:
		return errors.New("--format original needs predictors: powerinfer convert FOLDER PREDICTORS, or a prepared file in place of both")
	case c.Bool("mmproj") && (file || predictors != "" || format == "original"):
		return errors.New("--mmproj takes the folder of a Hugging Face model alone")
	case predictors != "" && format == "gguf":
		return errors.New("predictors are written in the original's form; leave --format out")
	}
	adapter := !file && convert.IsAdapter(dir)
	switch {
	case adapter && c.Bool("mmproj"):
		return fmt.Errorf("%s is an adapter, which has no tower for pictures; convert the folder of its model with --mmproj", dir)
	case adapter && (predictors != "" || format == "original"):
		return fmt.Errorf("%s is an adapter; predictors belong to models", dir)
	case !adapter && c.IsSet("base"):
		return errors.New("--base: only the folder of an adapter needs a model beside it")
	case c.IsSet("target-model-dir") && (file || adapter || predictors != "" || c.Bool("mmproj")):
		return errors.New("--target-model-dir is for the folder of a draft head alone")
	}
	if adapter && !c.IsSet("outtype") {
		if err := c.Set("outtype", "f32"); err != nil { // small, and read as floats
			return err
		}
	}
	if !file && strings.EqualFold(c.String("outtype"), "auto") {
		auto, err := convert.OutputFor(dir)
		if err != nil {
			return err
		}
		screen.Note("--outtype auto: " + strings.ToLower(auto.String()))
		if err := c.Set("outtype", strings.ToLower(auto.String())); err != nil {
			return err
		}
	}
	outtype, err := convert.ParseOutput(c.String("outtype"))
	if err != nil {
		return fmt.Errorf("--outtype: %w", err)
	}
	out, err := convertOutfile(c, dir, file, predictors != "")
	if err != nil {
		return err
	}
	o := convert.Options{
		Output: outtype, Target: c.String("target-model-dir"), Name: c.String("model-name"), NoFurther: c.Bool("no-mtp"),
		Notes: func(s string) { fmt.Fprintln(screen.Err, "note:", s) },
	}
	bar, left := progress.New("converting", progress.Bytes), progress.NewRemaining("")
	bar.Begins()
	o.Plan = func(size, memory int64) { // called once the vocabulary has been read
		bar.Finish()
		bar = progress.New("converting", progress.Bytes)
		screen.Note(fmt.Sprintf("%.1f MiB to write, with about %.0f MiB of memory", float64(size)/(1<<20), float64(memory)/(1<<20)))
	}
	o.Progress = func(done, total int64) {
		bar.Begun()
		left.Set(done, total)
		bar.Set(done, total)
	}
	switch {
	case file:
		err = convertPrepared(ctx, dir, out, o.Progress)
	case adapter:
		err = convert.Adapter(ctx, dir, c.String("base"), out, o)
	case predictors != "":
		err = convert.Original(ctx, dir, predictors, out, o)
	case c.Bool("mmproj"):
		err = convert.Tower(ctx, dir, out, o)
	default:
		err = convert.HuggingFace(ctx, dir, out, o)
	}
	bar.Finish()
	if err != nil {
		return err
	}
	fmt.Fprintln(screen.Err, "wrote", out)
	if !file && !adapter && !c.Bool("mmproj") && convert.HasTower(dir) {
		screen.Note(fmt.Sprintf("the model also sees pictures: powerinfer convert --mmproj %s writes the file that --mmproj takes for that", dir))
	}
	return nil
}

// convertOutfile returns the file to write: --outfile, or a name in the current folder made of the source's name.
func convertOutfile(c *cli.Command, source string, file, predictors bool) (string, error) {
	out := c.String("outfile")
	for _, name := range []string{"{ftype}", "{outtype}"} { // as in llama.cpp
		out = strings.ReplaceAll(out, name, strings.ToLower(c.String("outtype")))
	}
	if out == "" {
		abs, err := filepath.Abs(source)
		if err != nil {
			return "", err
		}
		out = filepath.Base(abs) + "-" + strings.ToLower(c.String("outtype"))
		switch {
		case c.Bool("mmproj"):
			out = "mmproj-" + filepath.Base(abs) + "-" + strings.ToUpper(c.String("outtype")) + ".gguf"
		case file:
			out = strings.TrimSuffix(filepath.Base(abs), ".gguf") + ".powerinfer.gguf"
		case predictors:
			out += ".powerinfer.gguf"
		default:
			out += ".gguf"
		}
	}
	if err := checkFiles([]string{source}, []string{out}); err != nil {
		return "", err
	}
	return out, atomicfile.Check(out, gguf.ModelKind())
}

// convertPrepared rewrites a prepared file in the original's form.
func convertPrepared(ctx context.Context, path, out string, progress func(done, total int64)) error {
	f, err := gguf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return prepared.WriteOriginal(ctx, out, f, progress)
}
