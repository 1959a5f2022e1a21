package grammar

import (
	"fmt"
	"slices"
)

// Separators of objects and arrays: at most one space after each.
var (
	comma = sequence(literal(","), optional(literal(" ")))
	colon = sequence(literal(":"), optional(literal(" ")))
)

// anything returns every JSON value.
func (c *schemas) anything() (*expr, error) {
	return c.rule("value", "any value", func() (*expr, error) {
		var subs []*expr
		for _, t := range types {
			e, err := c.plain(&value{kind: '{', keys: []string{"type"}, values: []*value{{kind: '"', text: t}}}, "any value")
			if err != nil {
				return nil, err
			}
			if t != "integer" {
				subs = append(subs, e)
			}
		}
		return choice(subs...), nil
	})
}

// members returns the objects that are valid by v.
func (c *schemas) members(v *value, path string) (*expr, error) {
	least, most, err := c.sizes(v, "minProperties", "maxProperties", path)
	if err != nil {
		return nil, err
	}
	props, err := c.properties(v, path)
	if err != nil {
		return nil, err
	}
	if len(props) > 0 && isNamed(v.get("propertyNames")) {
		if err := c.loosen("%s: propertyNames beside properties or required is not supported", path); err != nil {
			return nil, err
		}
	}
	extra, err := c.extraMember(v, props, path)
	if err != nil {
		return nil, err
	}
	if len(props) == 0 {
		if least > 1 {
			if err := c.loosen("%s: minProperties %d is not supported, since members might have the same name", path, least); err != nil {
				return nil, err
			}
		}
		if extra == nil {
			if least > 0 {
				return choice(), nil
			}
			return literal("{}"), nil
		}
		return sequence(literal("{"), separated(extra, least, most), literal("}")), nil
	}
	needed := 0
	for _, p := range props {
		if p.required {
			needed++
		}
	}
	if least > needed || most != unbounded && (most < len(props) || extra != nil) {
		if err := c.loosen("%s: minProperties and maxProperties are supported only where properties and required say as much", path); err != nil {
			return nil, err
		}
	}
	return sequence(literal("{"), memberGraph(props, extra), literal("}")), nil
}

// separated is from least to most of e with commas between.
func separated(e *expr, least, most int) *expr {
	if most == 0 {
		return empty
	}
	if most != unbounded {
		most--
	}
	all := sequence(e, repeat(sequence(comma, e), max(0, least-1), most))
	if least == 0 {
		return optional(all)
	}
	return all
}

// property is a member that a schema names.
type property struct {
	name     string
	required bool
	member   *expr
}

// memberGraph returns members in their order, then extra ones: its vertices 2i and 2i+1 precede property i, without and
// with a member before.
func memberGraph(props []property, extra *expr) *expr {
	g := make([]vertex, 2*len(props)+2)
	for i, p := range props {
		for before := range 2 {
			v := &g[2*i+before]
			by := p.member
			if before == 1 {
				by = sequence(comma, by)
			}
			v.edges = append(v.edges, edge{by, 2*i + 3})
			if !p.required {
				v.edges = append(v.edges, edge{empty, 2*i + 2 + before})
			}
		}
	}
	last := len(g) - 2
	g[last].final, g[last+1].final = true, true
	if extra != nil {
		g[last].edges = []edge{{extra, last + 1}}
		g[last+1].edges = []edge{{sequence(comma, extra), last + 1}}
	}
	return &expr{op: opGraph, graph: g}
}

// properties returns the members that properties and required name.
func (c *schemas) properties(v *value, path string) ([]property, error) {
	declared := v.get("properties")
	if declared != nil && declared.kind != '{' {
		return nil, fmt.Errorf("%s/properties: an object belongs here", path)
	}
	if r := v.get("required"); r != nil && (r.kind != '[' || slices.ContainsFunc(r.values, func(e *value) bool { return e.kind != '"' })) {
		return nil, fmt.Errorf("%s/required: a list of names belongs here", path)
	}
	needed := v.required()
	isNeeded := map[string]bool{}
	for _, n := range needed {
		isNeeded[n] = true
	}
	var out []property
	add := func(name string, s *value, at string) error {
		e, err := c.schema(s, at)
		if err == nil {
			err = c.spend(at, 0, 8*exprBytes+len(name))
		}
		if err == nil {
			out = append(out, property{name, isNeeded[name], sequence(c.scalar(&value{kind: '"', text: name}), colon, e)})
		}
		return err
	}
	if declared != nil {
		for i, name := range declared.keys {
			if err := add(name, declared.values[i], path+"/properties/"+name); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range needed {
		if declared.get(name) != nil {
			continue
		}
		s := v.get("additionalProperties")
		var err error
		switch {
		case v.get("patternProperties") != nil:
			s, err = truth(true), c.loosen("%s: %q is required and not among properties, which is not supported beside patternProperties", path, shown(name))
		case s == nil:
			s = truth(true)
		case s.kind == 'f':
			s, err = truth(true), c.loosen("%s: %q is required, but neither among properties nor allowed by additionalProperties", path, shown(name))
		}
		if err != nil {
			return nil, err
		}
		if err := add(name, s, path+"/additionalProperties"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// extraMember returns a member that properties does not name, nil if there may be none. Without additionalProperties
// there may be some only if nothing else restricts members, as in llama.cpp.
func (c *schemas) extraMember(v *value, props []property, path string) (*expr, error) {
	if v.get("patternProperties") != nil {
		return c.patternMember(v, props, path)
	}
	s := v.get("additionalProperties")
	if s == nil {
		if v.get("properties") != nil || len(props) > 0 && v.get("maxProperties") != nil {
			return nil, nil
		}
		s = truth(true)
	}
	if s.kind == 'f' {
		return nil, nil
	}
	e, err := c.schema(s, path+"/additionalProperties")
	if err != nil {
		return nil, err
	}
	name, err := c.otherName(v, props, path)
	if err != nil {
		return nil, err
	}
	return sequence(name, colon, e), nil
}

// patternMember returns the members that one pattern of patternProperties names.
func (c *schemas) patternMember(v *value, props []property, path string) (*expr, error) {
	p, s := v.get("patternProperties"), v.get("additionalProperties")
	if p.kind != '{' {
		return nil, fmt.Errorf("%s/patternProperties: an object belongs here", path)
	}
	if len(p.keys) != 1 || len(props) > 0 || s != nil && s.kind != 'f' || v.get("propertyNames") != nil {
		if err := c.loosen("%s: patternProperties is supported only with one pattern, and without properties, propertyNames and other additionalProperties than false", path); err != nil {
			return nil, err
		}
		free := v.without("patternProperties")
		if s != nil && s.kind == 'f' && len(props) == 0 {
			free = free.without("additionalProperties") // the patterns' members are allowed
		}
		return c.extraMember(free, props, path)
	}
	name, err := c.patternText([]string{p.keys[0]}, 0, unbounded, path+"/patternProperties")
	if err != nil {
		return nil, err
	}
	e, err := c.schema(p.values[0], path+"/patternProperties")
	if err != nil {
		return nil, err
	}
	return sequence(name, colon, e), nil
}

// otherName returns a member's name that is none of the properties'.
func (c *schemas) otherName(v *value, props []property, path string) (*expr, error) {
	names := v.get("propertyNames")
	switch {
	case len(props) == 0 && names != nil:
		return c.schema(both(names, &value{kind: '{', keys: []string{"type"}, values: []*value{{kind: '"', text: "string"}}}), path+"/propertyNames")
	case len(props) == 0:
		return c.anyString()
	}
	d := newNameTrie()
	for _, p := range props {
		if err := c.spend(path, 0, exprBytes*len(p.name)); err != nil {
			return nil, err
		}
		d.insert(p.name)
	}
	return quoted(d.others(c.m)), nil
}

// isNamed reports whether propertyNames says anything.
func isNamed(names *value) bool {
	return names != nil && names.kind != 't' && (names.kind != '{' || len(names.without(annotations...).keys) > 0)
}

// items returns the arrays that are valid by v. Without a schema for further items, there are none after those of a
// list, unless minItems requires some.
func (c *schemas) items(v *value, path string) (*expr, error) {
	least, most, err := c.sizes(v, "minItems", "maxItems", path)
	if err != nil {
		return nil, err
	}
	t, err := tupleOf(v, path)
	if err != nil {
		return nil, err
	}
	s := t.rest
	switch {
	case s == nil && len(t.prefix) > 0 && least <= len(t.prefix):
		s = truth(false)
	case s == nil:
		s = truth(true)
	}
	var item *expr
	if s.kind != 'f' {
		if item, err = c.schema(s, path+"/"+t.restKey); err != nil {
			return nil, err
		}
	}
	body, err := c.arrayGraph(t, item, least, most, path)
	if err != nil {
		return nil, err
	}
	return sequence(literal("["), body, literal("]")), nil
}

// A tuple holds the schemas of an array's first items, each its own, and of the rest.
type tuple struct {
	prefix             []*value
	prefixKey, restKey string // the keywords
	rest               *value // or nil
}

// tupleOf returns v's tuple: prefixItems and items or, as up to draft 2019-09, a list in items and additionalItems.
func tupleOf(v *value, path string) (t tuple, err error) {
	first, items := v.get("prefixItems"), v.get("items")
	switch {
	case items != nil && items.kind == '[' && first != nil:
		return t, fmt.Errorf("%s: prefixItems and a list in items exclude each other", path)
	case items != nil && items.kind == '[':
		return tuple{items.values, "items", "additionalItems", v.get("additionalItems")}, nil
	case first != nil && first.kind != '[':
		return t, fmt.Errorf("%s/prefixItems: a list of schemas belongs here", path)
	case first != nil:
		t.prefix = first.values
	}
	t.prefixKey, t.restKey, t.rest = "prefixItems", "items", items // additionalItems has no effect next to a single schema
	return t, nil
}

// arrayGraph returns a tuple's first items in their order, then others; item is nil if there are no others.
func (c *schemas) arrayGraph(t tuple, item *expr, least, most int, path string) (*expr, error) {
	n := len(t.prefix)
	if item == nil && (most == unbounded || most > n) {
		most = n
	}
	if least > n && item == nil {
		if err := c.loosen("%s: minItems %d is more than the items there may be", path, least); err != nil {
			return nil, err
		}
		least = n
	}
	if n == 0 {
		if item == nil {
			return empty, nil
		}
		return separated(item, least, most), nil
	}
	if err := c.spend(path, 0, exprBytes*n); err != nil {
		return nil, err
	}
	g := make([]vertex, n+2)
	for i, s := range t.prefix {
		e, err := c.schema(s, fmt.Sprint(path, "/", t.prefixKey, "/", i))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			e = sequence(comma, e)
		}
		g[i].final = i >= least
		if most == unbounded || i < most {
			g[i].edges = []edge{{e, i + 1}}
		}
	}
	g[n+1].final = true
	if item != nil && (most == unbounded || most >= n) {
		rest := most
		if rest != unbounded {
			rest -= n
		}
		g[n].edges = []edge{{repeat(sequence(comma, item), max(0, least-n), rest), n + 1}}
	}
	g[n].final = least <= n
	return &expr{op: opGraph, graph: g}, nil
}
