package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// plan returns the figures of what plan --json prints, see figures.
func (s *subject) plan(ctx context.Context, flags []string) (string, error) {
	out, err := s.run(ctx, append([]string{"plan", "--json"}, flags...)...)
	if err != nil {
		return "", err
	}
	return figures([]byte(out))
}

// Records hold the fields of a plan, of its GPUs and of its layers that have a meaning, so that a later release may
// print more.
func planKeys() []string {
	return []string{"context", "active", "vram", "ram", "seconds", "tokens_per_second", "ram_only_tokens_per_second", "whole_layers", "whole_layers_tokens_per_second"}
}

func gpuKeys() []string { return []string{"budget", "overhead"} }

func layerKeys() []string {
	return []string{"gpu", "attention_on_gpu", "predictor_on_gpu", "hot", "vram", "ram", "dense_seconds", "hot_seconds", "cold_seconds", "wait_seconds", "seconds"}
}

// figures returns the numbers of a plan without its labels. It hashes the numbers of layers, except the number of hot
// neurons.
func figures(data []byte) (string, error) {
	var plan map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&plan); err != nil {
		return "", err
	}
	out := picked(plan, planKeys())
	gpus, _ := folded(plan["machine"])["gpus"].([]any)
	for _, g := range gpus {
		out = append(out, picked(g, gpuKeys())...)
	}
	layers, _ := plan["layers"].([]any)
	var hot, all []string
	for _, l := range layers {
		hot = append(hot, picked(l, []string{"hot"})...)
		all = append(all, picked(l, layerKeys())...)
	}
	for i := range hot {
		hot[i] = strings.TrimPrefix(hot[i], "hot=")
	}
	return fmt.Sprintf("plan %s hot=%s layers=%s", strings.Join(out, " "), repeats(hot), hash([]byte(strings.Join(all, "\n")))), nil
}

// picked returns the values of keys in an object.
func picked(object any, keys []string) []string {
	fields := folded(object)
	var out []string
	for _, key := range keys {
		out = append(out, key+"="+number(fields[key]))
	}
	return out
}

// folded returns an object with keys in lower case, and with "GPU" for older releases' "card".
func folded(object any) map[string]any {
	fields, _ := object.(map[string]any)
	out := map[string]any{}
	for key, v := range fields {
		out[strings.ReplaceAll(strings.ToLower(key), "card", "gpu")] = v
	}
	return out
}

// number writes integers exactly, and others with the digits on which fused and separate multiplications and additions
// agree.
func number(v any) string {
	switch v := v.(type) {
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return v.String()
		}
		f, _ := v.Float64()
		return fmt.Sprintf("%.9g", f)
	case []any:
		var list []string
		for _, e := range v {
			list = append(list, number(e))
		}
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v)
}

// repeats writes a list with the lengths of its runs: 0x3,5,7x2.
func repeats(list []string) string {
	var out []string
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n] == list[i] {
			n++
		}
		if n > 1 {
			out = append(out, fmt.Sprintf("%sx%d", list[i], n))
		} else {
			out = append(out, list[i])
		}
		i += n
	}
	return strings.Join(out, ",")
}

// planned asks for a plan. Every release understands its flags.
func planned(name string, m *model, flags string) question {
	return question{name: "plan " + name, model: m, ask: func(ctx context.Context, s *subject) (string, error) {
		args := strings.Fields(flags)
		if m != nil {
			args = append(m.flags(), args...)
		}
		return s.plan(ctx, args)
	}}
}

// describedPlans returns plans of described models on described machines: nothing in them depends on this machine.
func describedPlans() []question {
	var list []question
	add := func(flags string) { list = append(list, planned(flags, nil, "--describe "+flags)) }
	shapes := []string{"llama-7b", "llama-13b", "llama-65b", "llama-70b", "bamboo-7b", "falcon-40b", "opt-13b", "opt-30b", "opt-66b", "opt-175b"}
	for _, shape := range shapes {
		for _, mode := range []string{"off", "exact", "predict"} {
			for _, machine := range []string{"pc-high", "pc-low"} {
				add(shape + ",type=q4_0,mode=" + mode + " --machine " + machine)
			}
		}
		add(shape + ",type=f16,active=0.2,share80=0.5 --machine pc-high --vram-budget 8")
		add(shape + " --machine pc-high-cpu")
	}
	for _, t := range types() {
		for _, budget := range []string{"0", "1", "4", "8.5"} {
			add("llama-13b,type=" + typeName(t) + " --machine pc-low --vram-budget " + budget)
		}
	}
	for _, flags := range []string{
		"-c 512", "-c 32768", "-ub 1", "-ub 64", "-ub 2048", "-b 16 -ub 16", "-ngl 0", "-ngl 4", "--stream-tokens 0", "--stream-tokens 128",
	} {
		add("bamboo-7b --machine pc-low --vram-budget 4 " + flags)
	}
	add("llama-70b,type=q4_0 --machine pc-low --card 12:360 --card 8:288 --vram-budget 6,10,7")
	published := question{name: "plan published", ask: func(ctx context.Context, s *subject) (string, error) {
		out, err := s.run(ctx, "plan", "--published")
		return digits(out), err
	}}
	return append(list, published)
}

// digits hashes the numbers of a text.
func digits(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	return fmt.Sprintf("%d numbers %s", len(words), hash([]byte(strings.Join(words, " "))))
}

// modelPlans returns plans of a model's file on a described machine with a GPU that holds some of it, or all.
func modelPlans(m *model) []question {
	var list []question
	for _, mode := range m.modes {
		for _, budget := range []string{someMemory, allMemory} {
			list = append(list, planned(m.name+" "+mode+" "+budget, m, "-c 256 --machine pc-low --sparse "+mode+" --vram-budget "+budget))
		}
	}
	return list
}
