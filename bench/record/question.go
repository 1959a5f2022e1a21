package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// question is a case: what the binary is asked. Names are unique and stay, for records are compared by them.
type question struct {
	name  string
	model *model // nil: none is needed
	same  string // name of an earlier question that should have the same answer; if it does, the record names it instead of the answer
	ask   func(ctx context.Context, s *subject) (string, error)
}

// questions returns all cases in the order of a record; gpu adds those on the GPU.
func questions(gpu bool) []question {
	plain, prepared, original, embedded := plainModels(), preparedModels(), originalModels(), embeddedModel()
	var all []question
	for _, m := range prepared {
		all = append(all, preparation(m))
	}
	all = append(all, describedPlans()...)
	for _, list := range [][]*model{plain, prepared, original, {embedded}} {
		for _, m := range list {
			all = append(all, modelPlans(m)...)
			all = append(all, onProcessor(m)...)
		}
	}
	all = append(all, sampled(embedded))
	if gpu {
		for _, list := range [][]*model{plain, prepared, original, {embedded}} {
			for _, m := range list {
				all = append(all, onGPU(m)...)
			}
		}
	}
	return all
}

// preparation is about the bytes of a prepared file.
func preparation(m *model) question {
	return question{name: "prepare " + m.name, model: m, ask: func(_ context.Context, s *subject) (string, error) {
		data, err := os.ReadFile(filepath.Join(s.dir, m.file()))
		return fmt.Sprintf("%d bytes %s", len(data), hash(data)), err
	}}
}

// onProcessor asks for text and predictions in each of the model's modes, and again with flags that must not change
// them, or only by the rounding of longer and shorter steps.
func onProcessor(m *model) []question {
	variants := []struct {
		name  string
		flags []string
	}{
		{"", []string{"-t", "2"}},
		{"-t 1", []string{"-t", "1"}},
		{"-ub 1", []string{"-t", "2", "-ub", "1"}},
		{"-ub 24", []string{"-t", "2", "-ub", "24"}},
		{"-nr", []string{"-t", "2", "-nr"}},
	}
	var list []question
	for _, mode := range m.modes {
		usual := "cpu " + m.name + " " + mode
		for _, v := range variants {
			flags := append([]string{"--device", "none", "--sparse", mode}, v.flags...)
			q := generation(strings.TrimSpace(usual+" "+v.name), m, 24, 128, flags)
			if v.name != "" {
				q.same = usual
			}
			list = append(list, q)
		}
	}
	return list
}

// generation asks for the greedy continuation of the tale's beginning by n tokens and for the perplexity of the tale in
// windows of the given length, with all predictions.
func generation(name string, m *model, n, window int, flags []string) question {
	return question{name: name, model: m, ask: func(ctx context.Context, s *subject) (string, error) {
		text, err := s.text(ctx, m, append([]string{"-n", fmt.Sprint(n), "--temp", "0"}, flags...))
		if err != nil {
			return "", err
		}
		predictions, err := s.predictions(ctx, m, strings.ReplaceAll(name, " ", "_"), append([]string{"-c", fmt.Sprint(window)}, flags...))
		return text + " " + predictions, err
	}}
}

// promptBytes is the length of the prompt, the beginning of the tale: a sentence and a half, over 32 tokens of any
// model.
const promptBytes = 190

// text returns a continuation of the prompt: its hash and its beginning.
func (s *subject) text(ctx context.Context, m *model, flags []string) (string, error) {
	args := append([]string{"run"}, m.flags()...)
	out, err := s.run(ctx, append(append(args, "-c", "256", "-p", tale[:promptBytes], "--ignore-eos", "--no-display-prompt"), flags...)...)
	if err != nil {
		return "", err
	}
	const shown = 60
	beginning := []rune(out)
	return fmt.Sprintf("text %s %q", hash([]byte(out)), string(beginning[:min(shown, len(beginning))])), nil
}

// predictions returns the perplexity of three windows of the tale, and a hash of the saved probabilities of every
// token.
func (s *subject) predictions(ctx context.Context, m *model, name string, flags []string) (string, error) {
	saved := filepath.Join(s.dir, name+".logits")
	defer os.Remove(saved)
	args := append([]string{"perplexity"}, m.flags()...)
	out, err := s.run(ctx, append(append(args, "-f", textFile, "--chunks", "3", "--kl-divergence-base", saved), flags...)...)
	if err != nil {
		return "", err
	}
	_, estimate, ok := strings.Cut(out, "PPL = ")
	if !ok {
		return "", fmt.Errorf("perplexity printed no estimate: %q", out)
	}
	data, err := os.ReadFile(saved)
	return fmt.Sprintf("perplexity %s logits %s", strings.TrimSpace(estimate), hash(data)), err
}

// sampled asks for a text with every sampler in use.
func sampled(m *model) question {
	return question{name: "cpu " + m.name + " sampled", model: m, ask: func(ctx context.Context, s *subject) (string, error) {
		return s.text(ctx, m, strings.Fields("--device none -t 2 -n 64 --seed 7 --temp 0.9 --top-k 50 --top-p 0.9 --min-p 0.02 --repeat-penalty 1.1 --presence-penalty 0.1 --frequency-penalty 0.1"))
	}}
}

// Budgets in GiB of video memory: some of a small model's neurons, and all that there is use for.
const (
	someMemory = "0.004"
	allMemory  = "1"
)

// onGPU asks for text and predictions while lavapipe computes a part of the model, or all of it, and for the plan of
// that part. Each question takes seconds, so it asks for a mode of a family in one type, and for a type in one family.
func onGPU(m *model) []question {
	var list []question
	add := func(name, mode, flags string) {
		list = append(list, gpuGeneration(m, strings.TrimSpace(mode+" "+name), mode, flags))
	}
	some, all := "--vram-budget "+someMemory, "--vram-budget "+allMemory
	f16, q4 := m.spec.Type == quant.F16, m.spec.Type == quant.Q4_0
	switch {
	case m.embedded():
		for _, mode := range m.modes {
			for _, budget := range []string{"0.006", "0.008", "0.01", allMemory} {
				add(budget, mode, "--vram-budget "+budget)
			}
		}
		for _, flags := range []string{"-ub 1", "-ub 24", "--stream-tokens 16", "-ngl 2"} {
			add(flags, "predict", "--vram-budget 0.008 "+flags)
		}
		add("-ngl 99", "predict", all+" -ngl 99")
	case m.spec.Magic == "PWRI" && q4:
		add("some", "predict", some)
	case m.prepared && q4:
		add("some", "predict", some)
		add("-ngl 1", "predict", "-ngl 1")
	case m.prepared && f16:
		add("all", "predict", all)
	case m.spec.Magic == "" && !m.prepared && (f16 || m.spec.Arch == "llama"):
		if len(m.modes) > 1 {
			add("some", "exact", some)
		}
		add("all", "off", all)
	}
	return list
}

// gpuGeneration returns a generation on lavapipe, with the plan for it.
func gpuGeneration(m *model, name, mode, flags string) question {
	on := append([]string{"--device", "lavapipe", "--sparse", mode}, strings.Fields(flags)...)
	q := generation("gpu "+m.name+" "+name, m, 8, 64, append([]string{"-t", "1"}, on...))
	answer := q.ask
	q.ask = func(ctx context.Context, s *subject) (string, error) {
		plan, err := s.plan(ctx, append(append(m.flags(), "-c", "256"), on...))
		if err != nil {
			return "", err
		}
		text, err := answer(ctx, s)
		return plan + " " + text, err
	}
	return q
}
