package model_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// story writes traces of a family as text. A stretch is what a segment does with the weights of one part of a layer, or
// outside of layers. Equal stretches are written once, with a number.
type story struct {
	strings.Builder
	programs, stretches, lists dictionary        // texts of steps, stretches, and lists of weights
	ropes                      []string          // in words
	loads                      map[string]string // name of a load, by all its steps
}

// stretch is a part of a segment.
type stretch struct {
	place  place
	text   string
	inputs string // which values of earlier stretches its letters stand for, and whether its rows are those that need logits
}

// place is a layer and a part of it. The layer is -1 outside of layers, and -2 if it is not known yet.
type place struct {
	layer int
	part  string
}

func (p place) String() string {
	if p.layer < 0 {
		return "outside"
	}
	return fmt.Sprintf("layer %d", p.layer)
}

// placeOf returns the place of a weight by its name in a file, as far as the name tells; before is the place of the
// previous operation.
func (d *paper) placeOf(label string, before place) place {
	if rest, ok := strings.CutPrefix(label, "blk."); ok {
		number, name, _ := strings.Cut(rest, ".")
		layer, _ := strconv.Atoi(number)
		p := place{layer, before.part}
		for part, prefixes := range map[string]string{"mixer": "attn ssm shortconv", "feed-forward": "ffn exp fc"} {
			if slices.ContainsFunc(strings.Fields(prefixes), func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				p.part = part
			}
		}
		if p.layer != before.layer && p.part == before.part && p.part != "mixer" {
			p.part = ""
		}
		return p
	}
	name := strings.FieldsFunc(label, func(r rune) bool { return r == '[' || r == '~' })[0]
	for _, f := range d.files {
		if f.Tensor(name) != nil {
			return place{-1, ""}
		}
	}
	return before
}

// relative returns a weight's label as the text of a place has it: the names of a layer's own weights begin with a dot.
func relative(label string, p place) string {
	if own, ok := strings.CutPrefix(label, fmt.Sprintf("blk.%d.", p.layer)); ok {
		return "." + own
	}
	return label
}

// told returns the stretches of a recording, and what the host reads afterwards.
func (r *recording) told() (list []stretch, after string) {
	at := place{-2, ""}
	var ends []int
	var places []place
	for i := range r.ops {
		for _, f := range r.ops[i].fields {
			if f.weight == "" || r.ops[i].name == "Foresee" {
				continue
			}
			p := r.dev.placeOf(f.weight, at)
			if p != at && at.layer != -2 {
				ends, places = append(ends, i), append(places, at)
			}
			at = p
		}
	}
	ends, places = append(ends, len(r.ops)), append(places, at)
	t := teller{r: r, home: make([]int, len(r.shapes)), number: make([]int, len(r.shapes))}
	from := 0
	for i, end := range ends {
		list = append(list, t.stretch(i, places[i], r.ops[from:end]))
		from = end
	}
	t.at = len(list)
	for _, f := range r.after {
		after += " " + f.name + "=" + t.place(f.values[0])
	}
	return list, after
}

// teller numbers values within their stretches.
type teller struct {
	r            *recording
	home, number []int // [values] the stretch that gives a value, and its number there
	at           int   // the stretch at hand
	letters      map[int]string
	inputs       []string
}

func (t *teller) stretch(at int, p place, ops []operation) stretch {
	t.at, t.letters, t.inputs = at, map[int]string{}, nil
	next := 0
	var b strings.Builder
	for _, o := range ops {
		line := ""
		for _, f := range o.fields {
			line += " " + t.field(f, p)
		}
		gives := ""
		for _, v := range o.gives {
			next++
			t.home[v], t.number[v] = at, next
			gives += fmt.Sprintf("%d%s ", next, t.r.shapes[v])
		}
		if gives != "" {
			gives += "= "
		}
		fmt.Fprintf(&b, "%s%s%s\n", gives, o.name, line)
	}
	text := b.String()
	if strings.Contains(text, "o×") && !strings.Contains(text, "n×") {
		text = strings.ReplaceAll(text, "o×", "n×")
		t.inputs = append(t.inputs, "n=o")
	}
	return stretch{p, text, strings.Join(t.inputs, " ")}
}

func (t *teller) field(f field, p place) string {
	s := f.text
	switch {
	case f.weight != "":
		s = relative(f.weight, p)
	case f.values != nil:
		var values []string
		for _, v := range f.values {
			values = append(values, t.value(v))
		}
		s = strings.Join(values, "|") + f.text
	case f.name == "Layer" && f.text == strconv.Itoa(p.layer):
		s = "own"
	case strings.Contains(s, " "):
		s = "(" + s + ")"
	}
	return f.name + "=" + s
}

// value names a value: by its number, or by a letter if it comes from an earlier stretch.
func (t *teller) value(v int) string {
	switch {
	case v == 0:
		return "?"
	case t.home[v] == t.at && t.number[v] > 0:
		return strconv.Itoa(t.number[v])
	}
	if t.letters[v] == "" {
		t.letters[v] = string(rune('a' + len(t.letters)))
		t.inputs = append(t.inputs, t.letters[v]+"="+t.place(v))
	}
	return t.letters[v]
}

// place says where a value of an earlier stretch is from: of the one before, of the one before that, or of the one of
// that number.
func (t *teller) place(v int) string {
	if v == 0 {
		return "?"
	}
	switch back := t.at - t.home[v]; back {
	case 1:
		return fmt.Sprintf("last.%d", t.number[v])
	case 2:
		return fmt.Sprintf("last2.%d", t.number[v])
	}
	return fmt.Sprintf("stretch%d.%d", t.home[v], t.number[v])
}

// line is a line of a step, and the text to be written with it where that is new.
type line struct{ text, first string }

// folded returns a line for each layer, and one line for equal neighbouring layers.
func folded(items []stretch, d *dictionary) (lines []line) {
	type layer struct {
		from, to    int
		text, first string
	}
	var layers []layer
	for i := 0; i < len(items); {
		y := layer{from: items[i].place.layer, to: items[i].place.layer}
		for ; i < len(items) && items[i].place.layer == y.from; i++ {
			name, first := d.of(items[i].text)
			y.text += strings.TrimRight(" "+name+" "+items[i].inputs, " ")
			y.first += first
		}
		if n := len(layers) - 1; n >= 0 && layers[n].text == y.text && y.from >= 0 && layers[n].to == y.from-1 {
			layers[n].to = y.to
			continue
		}
		layers = append(layers, y)
	}
	for _, y := range layers {
		name := place{y.from, ""}.String()
		if y.to != y.from {
			name = fmt.Sprintf("layers %d-%d", y.from, y.to)
		}
		lines = append(lines, line{"  " + name + ":" + y.text, y.first})
	}
	return lines
}

// dictionary numbers texts of several lines. A text that is similar to an earlier one is written as the difference.
type dictionary struct {
	prefix string
	texts  [][]string
}

// of returns a text's name. If the text is new, first are the lines that define it.
func (d *dictionary) of(text string) (name, first string) {
	is := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, was := range d.texts {
		if slices.Equal(is, was) {
			return fmt.Sprint(d.prefix, i+1), ""
		}
	}
	best := fmt.Sprintf("%s is\n  %s\n", d.name(len(d.texts)), strings.Join(is, "\n  "))
	for i, was := range d.texts {
		said := fmt.Sprintf("%s is %s but\n", d.name(len(d.texts)), d.name(i))
		same := 0 // lines at the beginning
		for same < min(len(is), len(was)) && is[same] == was[same] {
			same++
		}
		if len(is) == len(was) {
			for k := range is {
				if is[k] != was[k] {
					said += fmt.Sprintf("  line %d: %s\n", k+1, is[k])
				}
			}
		} else {
			end := 0 // lines at the end
			for end < min(len(is), len(was))-same && is[len(is)-1-end] == was[len(was)-1-end] {
				end++
			}
			switch to := len(was) - end; {
			case to == same:
				said += fmt.Sprintf("  after line %d:\n", to)
			case same+end == len(is):
				said += fmt.Sprintf("  without lines %d to %d\n", same+1, to)
			default:
				said += fmt.Sprintf("  in place of lines %d to %d:\n", same+1, to)
			}
			for _, line := range is[same : len(is)-end] {
				said += "  " + line + "\n"
			}
		}
		if len(said) < len(best) {
			best = said
		}
	}
	d.texts = append(d.texts, is)
	return d.name(len(d.texts) - 1), best
}

func (d *dictionary) name(i int) string { return fmt.Sprint(d.prefix, i+1) }

// told is a step's name and its lines.
type told struct {
	name  string
	lines []line
}

// load writes what was loaded and its steps, or says that another load did the same.
func (s *story) load(of, name string, weights []line, cache string, steps []told) {
	text := func(lines []line) (all, first string) {
		for _, l := range lines {
			all += strings.TrimSpace(l.text) + "\n"
			first += l.first
		}
		return all, first
	}
	bound, first := text(weights)
	key := cache + bound
	programs := make([]string, len(steps))
	for i, step := range steps {
		lines, told := text(step.lines)
		name, program := s.programs.of(lines)
		programs[i] = name
		key += fmt.Sprintf("%s: %s\n", step.name, name)
		steps[i].lines = []line{{name, program + told}}
	}
	if other := s.loads[key]; other != "" {
		fmt.Fprintf(s, "%s: as %s\n", name, other)
		return
	}
	s.loads[key] = of + ": " + name
	fmt.Fprintf(s, "\n%s:\ncache: %sweights: %s\n%s", name, cache, strings.ReplaceAll(strings.TrimSpace(bound), "\n", "; "), first)
	for i := range steps {
		if slices.Index(programs, programs[i]) < i {
			continue
		}
		var names []string
		for j := range steps {
			if programs[j] == programs[i] {
				names = append(names, steps[j].name)
			}
		}
		fmt.Fprintf(s, "* %s: %s\n", programs[i], strings.Join(names, "; "))
		for j := range steps {
			if programs[j] == programs[i] {
				s.WriteString(steps[j].lines[0].first)
			}
		}
	}
}

// listed returns the weights that d was given, layer by layer; weights with the same name are in the order of their
// rows.
func (s *story) listed(d *paper) []line {
	type item struct {
		place place
		w     weight
	}
	var items []item
	for _, w := range d.weights {
		p := d.placeOf(w.label, place{-1, ""})
		items = append(items, item{place{p.layer, ""}, w})
	}
	slices.SortStableFunc(items, func(a, b item) int {
		name := func(i item) string { n, _, _ := strings.Cut(i.w.label, "["); return n }
		return cmp.Or(cmp.Compare(a.place.layer, b.place.layer), strings.Compare(name(a), name(b)), strings.Compare(a.w.label, b.w.label))
	})
	var list []stretch
	for i := 0; i < len(items); {
		text, at := "", i
		for ; i < len(items) && items[i].place == items[at].place; i++ {
			if i == at || items[i].w != items[i-1].w { // what was made may have been made again
				text += fmt.Sprintf("%s %s\n", relative(items[i].w.label, items[i].place), items[i].w.text)
			}
		}
		list = append(list, stretch{place: items[at].place, text: text})
	}
	return folded(list, &s.lists)
}

// cached describes a cache.
func cached(c compute.CacheSpec) string {
	var list []string
	if c.Further != nil {
		list = append(list, fmt.Sprintf("states of layers %v after the model's", c.Further))
	}
	shape := func(l int) string {
		k := c.Layers[l]
		s := fmt.Sprintf("%d pages of %d heads of %d %s and %d %s", c.PagesOf(l), k.Heads, k.Key, k.KeyType, k.Value, k.ValueType)
		if k.Within {
			s += " within"
		}
		if k.State > 0 {
			s = fmt.Sprintf("%d states of %d", c.PagesOf(l), k.State)
		}
		if c.IsWindowed(l) {
			s += " in windows"
		}
		return s
	}
	for l := 0; l < len(c.Layers); {
		to := l
		for to+1 < len(c.Layers) && shape(to+1) == shape(l) {
			to++
		}
		list = append(list, fmt.Sprintf("layers %d-%d %s", l, to, shape(l)))
		l = to + 1
	}
	return strings.Join(list, "; ") + "\n"
}
