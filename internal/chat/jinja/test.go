package jinja

import "math/big"

// tests are Jinja2's built-in tests.
var tests = map[string]*function{
	"boolean":     kindTest(func(v Value) bool { _, ok := v.(bool); return ok }),
	"callable":    kindTest(callable),
	"defined":     kindTest(func(v Value) bool { _, ok := v.(*Undefined); return !ok }),
	"divisibleby": fn("value num", divisibleTest),
	"eq":          comparisonTest("=="), "equalto": comparisonTest("=="), "==": comparisonTest("=="),
	"escaped": kindTest(func(v Value) bool { _, ok := v.(Markup); return ok }),
	"even":    parityTest(0),
	"false":   kindTest(func(v Value) bool { b, ok := v.(bool); return ok && !b }),
	"filter":  fn("value", func(c *call, a []Value) (Value, error) { return known(c.r.filters, a[0]), nil }),
	"float":   kindTest(isFloat),
	"ge":      comparisonTest(">="), ">=": comparisonTest(">="),
	"gt": comparisonTest(">"), "greaterthan": comparisonTest(">"), ">": comparisonTest(">"),
	"in":       fn("value seq", func(c *call, a []Value) (Value, error) { return c.r.compare("in", a[0], a[1]) }),
	"integer":  kindTest(isInteger),
	"iterable": kindTest(iterable),
	"le":       comparisonTest("<="), "<=": comparisonTest("<="),
	"lower": caseTest("islower"),
	"lt":    comparisonTest("<"), "lessthan": comparisonTest("<"), "<": comparisonTest("<"),
	"mapping": kindTest(func(v Value) bool { _, ok := v.(*Dict); return ok }),
	"ne":      comparisonTest("!="), "!=": comparisonTest("!="),
	"none":      kindTest(func(v Value) bool { _, ok := v.(None); return ok }),
	"number":    kindTest(func(v Value) bool { _, ok := float(v); return ok }),
	"odd":       parityTest(1),
	"sameas":    fn("value other", func(_ *call, a []Value) (Value, error) { return sameObject(a[0], a[1]), nil }),
	"sequence":  kindTest(sequence),
	"string":    kindTest(func(v Value) bool { _, ok := text(v); return ok }),
	"test":      fn("value", func(c *call, a []Value) (Value, error) { return known(c.r.tests, a[0]), nil }),
	"true":      kindTest(func(v Value) bool { b, ok := v.(bool); return ok && b }),
	"undefined": kindTest(func(v Value) bool { _, ok := v.(*Undefined); return ok }),
	"upper":     caseTest("isupper"),
}

func kindTest(is func(Value) bool) *function {
	return fn("value", func(_ *call, a []Value) (Value, error) { return is(a[0]), nil })
}

func comparisonTest(op string) *function {
	return fn("a b", func(c *call, a []Value) (Value, error) { return c.r.compare(op, a[0], a[1]) })
}

func caseTest(method string) *function {
	return fn("value", func(c *call, a []Value) (Value, error) {
		s, err := c.r.read(a[0])
		if err != nil {
			return nil, err
		}
		return stringMethods[method].do(c, s, nil)
	})
}

func parityTest(rest int64) *function {
	return fn("value", func(c *call, a []Value) (Value, error) {
		v, err := c.r.binary("%", a[0], int64(2))
		if err != nil {
			return nil, err
		}
		return c.r.equal(v, rest)
	})
}

func divisibleTest(c *call, a []Value) (Value, error) {
	v, err := c.r.binary("%", a[0], a[1])
	if err != nil {
		return nil, err
	}
	return c.r.equal(v, int64(0))
}

func known(table map[string]*function, v Value) bool {
	name, _ := text(v)
	_, ok := table[name]
	return ok
}

func callable(v Value) bool {
	switch v.(type) {
	case *function, *macro, *loop, *joiner, *Undefined:
		return true
	}
	return false
}

func isInteger(v Value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

func iterable(v Value) bool {
	switch v.(type) {
	case string, Markup, *List, *Tuple, *Dict, view, rangeValue, *iterator, *Undefined, *loop:
		return true
	}
	return false
}

func sequence(v Value) bool {
	switch v.(type) {
	case string, Markup, *List, *Tuple, *Dict, rangeValue, *Undefined:
		return true
	}
	return false
}
