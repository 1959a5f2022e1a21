package grammar

import (
	"cmp"
	"fmt"
	"slices"
)

// Bounds of what merging may lead to.
const (
	maxAlternatives = 256 // schemas without applicators that replace one schema
	maxMerge        = 32  // schemas within each other that are merged
)

// expand returns schemas without $ref, allOf, anyOf and oneOf at their top; a value is valid by v if it is valid by one
// of them.
func (c *schemas) expand(v *value, path string, depth int) ([]*value, error) {
	path = short(path)
	if depth > maxMerge {
		return []*value{{kind: '{'}}, c.loosen("%s: $ref, allOf, anyOf and oneOf lead to each other more than %d deep", path, maxMerge)
	}
	switch v.kind {
	case 't':
		return []*value{{kind: '{'}}, nil
	case 'f':
		return nil, nil
	case '{':
	default:
		return nil, fmt.Errorf("%s: a schema is an object, true or false", path)
	}
	if err := c.spend(path, 32, valueBytes); err != nil {
		return nil, err
	}
	if v.never() {
		return nil, nil
	}
	v, err := c.supportedOf(v, path)
	if err != nil {
		return nil, err
	}
	plain := v.without(append(slices.Clone(applicators), annotations...)...)
	if values, ok := constants(v); ok { // so that two different ones leave none
		plain = plain.without("const").with("enum", &value{kind: '[', values: values})
	}
	out := []*value{plain}
	for _, key := range applicators {
		e := v.get(key)
		if e == nil {
			continue
		}
		parts, err := c.parts(key, e, path, depth)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			if out, err = c.cross(out, part, path); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// parts returns an applicator's requirements: one of the schemas of each list.
func (c *schemas) parts(key string, e *value, path string, depth int) ([][]*value, error) {
	if key == "$ref" {
		target, at, err := c.resolve(e, path)
		if err != nil {
			return nil, err
		}
		part, err := c.expand(target, at, depth+1)
		return [][]*value{part}, err
	}
	path += "/" + key
	if e.kind != '[' || len(e.values) == 0 {
		return nil, fmt.Errorf("%s: a list of schemas belongs here", path)
	}
	if key == "oneOf" {
		if err := c.disjoint(e, path); err != nil {
			return nil, err
		}
	}
	var parts [][]*value
	for i, s := range e.values {
		part, err := c.expand(s, fmt.Sprint(path, "/", i), depth+1)
		if err != nil {
			return nil, err
		}
		if key == "allOf" || len(parts) == 0 {
			parts = append(parts, part)
		} else {
			parts[0] = append(parts[0], part...)
		}
	}
	return parts, nil
}

// cross returns the merged pairs of a and b that some value may be valid by.
func (c *schemas) cross(a, b []*value, path string) ([]*value, error) {
	if len(a)*len(b) > maxAlternatives {
		return a, c.loosen("%s: allOf, anyOf and oneOf combine to more than %d alternatives", path, maxAlternatives)
	}
	var out []*value
	for _, x := range a {
		for _, y := range b {
			m, err := c.merge(x, y, path)
			if err != nil {
				return nil, err
			}
			if !impossible(m) {
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// impossible reports whether no type, or no value of an enum that is of a type, is left.
func impossible(v *value) bool {
	allowed, err := typesOf(v, "")
	values, ok := constants(v)
	return err == nil && (len(allowed) == 0 ||
		ok && !slices.ContainsFunc(values, func(e *value) bool { return slices.ContainsFunc(allowed, e.is) }))
}

// merge returns the schema of values that are valid by both a and b. Both have no applicators.
func (c *schemas) merge(a, b *value, path string) (*value, error) {
	if err := c.spend(path, 64+16*len(a.keys)+4*len(a.keys)*len(b.keys), 0); err != nil {
		return nil, err
	}
	if !sameTuples(a, b) {
		if err := c.loosen("%s: allOf, $ref, anyOf or oneOf combines lists of items that differ, which is not supported", path); err != nil {
			return nil, err
		}
		b = b.without(itemKeys...)
	}
	out := a
	for i, key := range b.keys {
		x, y := a.get(key), b.values[i]
		if key == "properties" || key == "additionalProperties" || isAnnotation(key) {
			continue
		}
		if x == nil || x.equal(y) {
			out = out.with(key, y)
			continue
		}
		m, err := c.mergeKeyword(key, x, y, path)
		if err != nil {
			return nil, err
		}
		out = out.with(key, m)
	}
	return c.mergeProperties(out, a, b, path)
}

// itemKeys are keywords about an array's items. The items of one keyword depend on the other two.
var itemKeys = []string{"prefixItems", "items", "additionalItems"}

// sameTuples reports whether two schemas agree about items: neither is about an array's first items, or one is not
// about items at all, or they say the same.
func sameTuples(a, b *value) bool {
	about := func(v *value) bool {
		return slices.ContainsFunc(itemKeys, func(k string) bool { return v.get(k) != nil })
	}
	tuple := func(v *value) bool {
		return v.get("prefixItems") != nil || v.get("items") != nil && v.get("items").kind == '['
	}
	if !about(a) || !about(b) || !tuple(a) && !tuple(b) {
		return true
	}
	return !slices.ContainsFunc(itemKeys, func(k string) bool {
		x, y := a.get(k), b.get(k)
		return (x == nil) != (y == nil) || x != nil && !x.equal(y)
	})
}

// both returns a schema that is valid by x and y.
func both(x, y *value) *value {
	return &value{kind: '{', keys: []string{"allOf"}, values: []*value{{kind: '[', values: []*value{x, y}}}}
}

// mergeKeyword returns the value of a keyword that says as much as x and y together.
func (c *schemas) mergeKeyword(key string, x, y *value, path string) (*value, error) {
	switch key {
	case "type":
		return commonTypes(x, y), nil
	case "enum":
		same := among(y.values)
		return &value{kind: '[', values: slices.DeleteFunc(slices.Clone(x.values), func(e *value) bool { return !same(e) })}, nil
	case "required":
		return &value{kind: '[', values: slices.Concat(x.values, y.values)}, nil
	case "pattern", "format":
		return &value{kind: '[', values: slices.Concat(list(x), list(y))}, nil
	case "items", "propertyNames":
		return both(x, y), nil
	case "minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum", "maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum":
		p, ok1 := rational(x)
		q, ok2 := rational(y)
		if ok1 && ok2 {
			if lower := p.Cmp(q) < 0; lower == (key[:3] == "max" || key == "exclusiveMaximum") {
				return x, nil
			}
			return y, nil
		}
	}
	return x, c.loosen("%s: allOf, $ref, anyOf or oneOf leads to %s twice with different values, which is not supported", path, key)
}

// list returns a list's values, or anything else as the only value.
func list(v *value) []*value {
	if v.kind == '[' {
		return v.values
	}
	return []*value{v}
}

func commonTypes(x, y *value) *value {
	out := &value{kind: '['}
	for _, t := range list(x) {
		for _, u := range list(y) {
			switch {
			case t.text == u.text, t.text == "integer" && u.text == "number":
				out.values = append(out.values, t)
			case t.text == "number" && u.text == "integer":
				out.values = append(out.values, u)
			}
		}
	}
	return out
}

// mergeProperties sets the properties of out to those of a and b, in this order. The other's additionalProperties apply
// to a member that only one of them names.
func (c *schemas) mergeProperties(out, a, b *value, path string) (*value, error) {
	others := [2]*value{a.get("additionalProperties"), b.get("additionalProperties")}
	props := &value{kind: '{', members: map[string]int{}}
	for i, from := range []*value{a.get("properties"), b.get("properties")} {
		if from == nil || from.kind != '{' {
			continue
		}
		if err := c.spend(path, 8*len(from.keys), 48*len(from.keys)); err != nil {
			return nil, err
		}
		for k, key := range from.keys {
			s := from.values[k]
			if at, ok := props.members[key]; ok {
				props.values[at] = both(props.values[at], s)
				continue
			} else if other := others[1-i]; other != nil && [2]*value{a, b}[1-i].get("properties").get(key) == nil {
				s = both(s, other)
			}
			props.members[key] = len(props.keys)
			props.keys, props.values = append(props.keys, key), append(props.values, s)
		}
	}
	if len(props.keys) > 0 || a.get("properties") != nil || b.get("properties") != nil {
		out = out.with("properties", props)
	}
	switch {
	case others[0] != nil && others[1] != nil:
		out = out.with("additionalProperties", both(others[0], others[1]))
	case others[1] != nil:
		out = out.with("additionalProperties", others[1])
	}
	return out, nil
}

// disjoint calls loosen if the schemas of a oneOf may overlap: a value could be valid by two of them, which oneOf
// forbids.
func (c *schemas) disjoint(list *value, path string) error {
	if list.kind != '[' {
		return fmt.Errorf("%s: a list of schemas belongs here", path)
	}
	if len(list.values) > maxAlternatives {
		return fmt.Errorf("%s: more than %d schemas", path, maxAlternatives)
	}
	quiet := *c // what it loosens is listed where the schemas themselves are read
	quiet.loose = nil
	ways, errs := make([][]*value, len(list.values)), make([]error, len(list.values))
	for i, v := range list.values {
		ways[i], errs[i] = quiet.expand(v, path, maxMerge/2)
		for j := range i {
			if err := c.spend(path, 1, 0); err != nil {
				return err
			}
			if cmp.Or(errs[i], errs[j]) != nil || !quiet.allApart(ways[i], ways[j], path, 0) {
				return c.loosen("%s: a value may be valid by number %d and number %d of its schemas; oneOf is supported where they differ in type or in the values of a required member; use anyOf otherwise", path, j, i)
			}
		}
	}
	return nil
}

// apart reports whether plainly no value is valid by both a and b.
func (c *schemas) apart(a, b *value, path string, depth int) bool {
	if depth > 3 {
		return false
	}
	xs, err1 := c.expand(a, path, maxMerge/2)
	ys, err2 := c.expand(b, path, maxMerge/2)
	return err1 == nil && err2 == nil && c.allApart(xs, ys, path, depth)
}

// allApart is apart for schemas as expand returns them.
func (c *schemas) allApart(xs, ys []*value, path string, depth int) bool {
	for _, x := range xs {
		for _, y := range ys {
			if !c.plainlyApart(x, y, path, depth) {
				return false
			}
		}
	}
	return true
}

func (c *schemas) plainlyApart(x, y *value, path string, depth int) bool {
	m, err := c.merge(x.without("enum", "const"), y.without("enum", "const"), path)
	if err == nil {
		if t := m.get("type"); t != nil && t.kind == '[' && len(t.values) == 0 {
			return true
		}
	}
	p, ok1 := constants(x)
	q, ok2 := constants(y)
	if ok1 && ok2 {
		c.m.spend(4 * (len(p) + len(q)))
		return !slices.ContainsFunc(p, among(q))
	}
	if !onlyObjects(x) || !onlyObjects(y) {
		return false
	}
	others := y.required()
	for _, key := range x.required() {
		if c.m.spend(8+len(others)) != nil {
			return false
		}
		if p, q := x.get("properties").get(key), y.get("properties").get(key); p != nil && q != nil &&
			slices.Contains(others, key) && c.apart(p, q, path, depth+1) {
			return true
		}
	}
	return false
}

// constants returns the values of enum and const, if there is one of them.
func constants(v *value) (values []*value, ok bool) {
	e, one := v.get("enum"), v.get("const")
	ok = e != nil && e.kind == '['
	switch {
	case ok && one != nil:
		return slices.DeleteFunc(slices.Clone(e.values), func(e *value) bool { return !e.equal(one) }), true
	case one != nil:
		return []*value{one}, true
	case ok:
		return e.values, true
	}
	return nil, false
}

func onlyObjects(v *value) bool {
	t, err := typesOf(v, "")
	return err == nil && len(t) == 1 && t[0] == "object"
}

// required returns the names of required members.
func (v *value) required() []string {
	var names []string
	if r := v.get("required"); r != nil && r.kind == '[' {
		known := make(map[string]bool, len(r.values))
		for _, e := range r.values {
			if !known[e.text] {
				known[e.text] = true
				names = append(names, e.text)
			}
		}
	}
	return names
}
