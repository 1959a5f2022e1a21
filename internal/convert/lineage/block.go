package lineage

import (
	"path"
	"slices"
	"strings"
)

// The functions below return lists of tensors that are made from others and leave these as they are. Patterns are
// path.Match's and name tensors by their names in GGUF, in blocks after "blk.N.".

// matches reports whether one of patterns matches name.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// each returns tensors with change applied to those that match patterns.
func each(tensors []Tensor, change func(t *Tensor), patterns ...string) []Tensor {
	tensors = slices.Clone(tensors)
	for i := range tensors {
		if matches(tensors[i].Name, patterns) {
			change(&tensors[i])
		}
	}
	return tensors
}

// optional returns tensors, with those that match patterns made optional.
func optional(tensors []Tensor, patterns ...string) []Tensor {
	return each(tensors, func(t *Tensor) { t.Optional = true }, patterns...)
}

// required returns tensors, with those that match patterns made required.
func required(tensors []Tensor, patterns ...string) []Tensor {
	return each(tensors, func(t *Tensor) { t.Optional = false }, patterns...)
}

// changed returns tensors, with this change at conversion for those that match patterns.
func changed(tensors []Tensor, change Change, patterns ...string) []Tensor {
	return each(tensors, func(t *Tensor) { t.Change = change }, patterns...)
}

// without returns tensors that do not match patterns.
func without(tensors []Tensor, patterns ...string) []Tensor {
	return slices.DeleteFunc(slices.Clone(tensors), func(t Tensor) bool { return matches(t.Name, patterns) })
}

// with returns tensors with more. Each of more replaces the tensor of the same name, or comes last.
func with(tensors []Tensor, more ...Tensor) []Tensor {
	tensors = slices.Clone(tensors)
	for _, t := range more {
		if i := slices.IndexFunc(tensors, func(old Tensor) bool { return old.Name == t.Name }); i >= 0 {
			tensors[i] = t
		} else {
			tensors = append(tensors, t)
		}
	}
	return tensors
}

// replaced returns tensors with by in place of the named one.
func replaced(tensors []Tensor, name string, by ...Tensor) []Tensor {
	i := slices.IndexFunc(tensors, func(t Tensor) bool { return t.Name == name })
	return slices.Concat(tensors[:i], by, tensors[i+1:])
}

// before returns tensors with more before the named one.
func before(tensors []Tensor, name string, more ...Tensor) []Tensor {
	i := slices.IndexFunc(tensors, func(t Tensor) bool { return t.Name == name })
	return slices.Concat(tensors[:i], more, tensors[i:])
}

// biased returns tensors, with a bias after each weight.
func biased(tensors ...Tensor) []Tensor {
	var out []Tensor
	for _, t := range tensors {
		out = append(out, t, biasOf(t))
	}
	return out
}

// biasOf returns the bias of the product or norm that has a weight.
func biasOf(weight Tensor) Tensor {
	t := Tensor{
		Name: strings.TrimSuffix(weight.Name, "weight") + "bias", Source: strings.ReplaceAll(weight.Source+" ", "weight ", "bias "), Optional: weight.Optional, Change: weight.Change,
	}
	t.Source = strings.TrimSpace(t.Source)
	if t.Change != Pairs && t.Change != Ungroup { // the others are of columns, or of norms' weights
		t.Change = Same
	}
	return t
}

// gatedLayer returns the tensors of a feed-forward layer with a gate; prefix is its name on Hugging Face.
func gatedLayer(prefix string) []Tensor {
	return []Tensor{
		{Name: "ffn_gate.weight", Source: prefix + "gate_proj.weight"},
		{Name: "ffn_up.weight", Source: prefix + "up_proj.weight"},
		{Name: "ffn_down.weight", Source: prefix + "down_proj.weight"},
	}
}
