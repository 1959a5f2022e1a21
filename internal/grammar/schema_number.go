package grammar

import (
	"fmt"
	"math/big"
	"strings"
)

// Digits of numbers without bounds: as many as 64 bits distinguish, so that a model cannot write digits forever.
const (
	integerDigits  = 18
	fractionDigits = 16
	maxMultiples   = 1000 // multipleOf without bounds, and the numbers of one with bounds
)

// rangeBytes is roughly the size of the numbers between two bounds: expressions by the digits of the bounds.
const rangeBytes = 32 << 10

var digit = class(runeRange{'0', '9'})

// limits are the bounds of a number, each nil if there is none.
type limits struct {
	lo, hi         *big.Rat
	loOpen, hiOpen bool // the bound itself is not allowed
}

func (c *schemas) readLimits(v *value, path string) (l limits, err error) {
	for _, key := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} {
		e := v.get(key)
		if e == nil || e.kind == 'f' && key[0] == 'e' {
			continue
		}
		if e.kind == 't' && key[0] == 'e' { // up to draft 4: the other bound is not allowed itself
			if e = v.get(strings.ToLower(key[len("exclusive"):])); e == nil {
				continue
			}
		}
		r, ok := rational(e)
		if !ok {
			if err := c.loosen("%s/%s: a number of a usual size belongs here, not %s", path, key, e); err != nil {
				return l, err
			}
			continue
		}
		open := key[0] == 'e'
		if strings.HasSuffix(strings.ToLower(key), "minimum") {
			if l.lo == nil || r.Cmp(l.lo) > 0 || r.Cmp(l.lo) == 0 && open {
				l.lo, l.loOpen = r, open
			}
		} else if l.hi == nil || r.Cmp(l.hi) < 0 || r.Cmp(l.hi) == 0 && open {
			l.hi, l.hiOpen = r, open
		}
	}
	if l.lo != nil && l.hi != nil && l.lo.Cmp(l.hi) > 0 {
		return l, fmt.Errorf("%s: the minimum is more than the maximum", path)
	}
	return l, nil
}

// integer returns the whole numbers that are valid by v.
func (c *schemas) integer(v *value, path string) (*expr, error) {
	l, err := c.readLimits(v, path)
	if err != nil {
		return nil, err
	}
	lo, hi := l.whole()
	if m := v.get("multipleOf"); m != nil {
		r, ok := rational(m)
		if !ok || r.Sign() <= 0 {
			return nil, fmt.Errorf("%s/multipleOf: a number above 0 belongs here, not %s", path, m)
		}
		if n := r.Num(); n.Cmp(big.NewInt(1)) > 0 { // integers are multiples of n/d in lowest terms if they are of n
			if e, err := c.multiples(n, lo, hi, path); e != nil || err != nil {
				return e, err
			}
			if err := c.loosen("%s: multipleOf %s is not supported here; the most are %d, between two bounds %d multiples, and a minimum alone is 0 or up to multipleOf", path, m, maxMultiples, maxMultiples); err != nil {
				return nil, err
			}
		}
	}
	if lo == nil && hi == nil {
		return c.rule("integer", path, func() (*expr, error) {
			return choice(literal("0"), sequence(optional(literal("-")), wholePart())), nil
		})
	}
	return integersBetween(lo, hi), c.spend(path, 0, rangeBytes)
}

// wholePart returns the digits of a whole number above 0.
func wholePart() *expr {
	return sequence(class(runeRange{'1', '9'}), repeat(digit, 0, integerDigits-1))
}

// multiples returns the multiples of n from lo to hi, nil if they are not supported. No bound is nil.
func (c *schemas) multiples(n, lo, hi *big.Int, path string) (*expr, error) {
	if lo != nil && hi != nil {
		var subs []*expr
		i := ceil(new(big.Rat).SetFrac(lo, n))
		for i.Mul(i, n); i.Cmp(hi) <= 0; i.Add(i, n) {
			if len(subs) == maxMultiples {
				return nil, nil
			}
			subs = append(subs, literal(i.String()))
		}
		return choice(subs...), c.spend(path, 0, len(subs)*exprBytes)
	}
	if n.Cmp(big.NewInt(maxMultiples)) > 0 || hi != nil || lo != nil && (lo.Sign() < 0 || lo.Cmp(n) > 0) {
		return nil, nil
	}
	step := int(n.Int64())
	positive, err := c.rule(fmt.Sprint("multiple of ", step), path, func() (*expr, error) {
		return positiveMultiples(step), c.spend(path, 0, step*10*exprBytes)
	})
	if err != nil {
		return nil, err
	}
	if lo == nil {
		positive = sequence(optional(literal("-")), positive)
	}
	if lo == nil || lo.Sign() == 0 {
		positive = choice(literal("0"), positive)
	}
	return positive, nil
}

// positiveMultiples returns the multiples of n above 0: vertex 1+r follows digits with remainder r.
func positiveMultiples(n int) *expr {
	g := make([]vertex, n+2)
	for d := 1; d <= 9; d++ {
		e := edge{literal(string(rune('0' + d))), 1 + d%n}
		g[0].edges = append(g[0].edges, e)
	}
	g[1].final = true
	for r := range n {
		for d := range 10 {
			g[1+r].edges = append(g[1+r].edges, edge{literal(string(rune('0' + d))), 1 + (10*r+d)%n})
		}
	}
	return &expr{op: opGraph, graph: g}
}

// whole returns the least and the most whole number within l, each nil without a bound.
func (l limits) whole() (lo, hi *big.Int) {
	one := big.NewInt(1)
	if l.lo != nil {
		lo = ceil(l.lo)
		if l.loOpen && l.lo.IsInt() {
			lo.Add(lo, one)
		}
	}
	if l.hi != nil {
		hi = ceil(new(big.Rat).Neg(l.hi))
		hi.Neg(hi)
		if l.hiOpen && l.hi.IsInt() {
			hi.Sub(hi, one)
		}
	}
	return lo, hi
}

// integersBetween returns the whole numbers from lo to hi. A side without a bound, nil, goes as far as integerDigits,
// and as the other side's digits.
func integersBetween(lo, hi *big.Int) *expr {
	one := big.NewInt(1)
	far := func(n *big.Int) *big.Int {
		digits := max(integerDigits, len(new(big.Int).Abs(n).String()))
		return new(big.Int).Sub(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil), one)
	}
	if lo == nil {
		lo = new(big.Int).Neg(far(hi))
	}
	if hi == nil {
		hi = far(lo)
	}
	var subs []*expr
	if lo.Sign() < 0 {
		from := new(big.Int).Neg(hi)
		if from.Sign() <= 0 {
			from = one
		}
		subs = append(subs, sequence(literal("-"), naturals(from, new(big.Int).Neg(lo))))
	}
	if hi.Sign() >= 0 {
		if lo.Sign() < 0 {
			lo = new(big.Int)
		}
		subs = append(subs, naturals(lo, hi))
	}
	return choice(subs...)
}

// ceil returns the least whole number from r on.
func ceil(r *big.Rat) *big.Int {
	q, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if m.Sign() != 0 {
		q.Add(q, big.NewInt(1))
	}
	return q
}

// naturals returns the whole numbers from lo to hi, lo at least 0; none if lo is more.
func naturals(lo, hi *big.Int) *expr {
	var subs []*expr
	a, b := lo.String(), hi.String()
	if lo.Cmp(hi) > 0 {
		return choice()
	}
	for n := len(a); n <= len(b); n++ {
		from, to := a, b
		if n > len(a) {
			from = "1" + strings.Repeat("0", n-1)
		}
		if n < len(b) {
			to = strings.Repeat("9", n)
		}
		subs = append(subs, digitsBetween(from, to))
	}
	return choice(subs...)
}

// digitsBetween returns the digit texts from a to b, all of the same length.
func digitsBetween(a, b string) *expr {
	n := len(a)
	switch {
	case n == 0:
		return empty
	case strings.Trim(a, "0") == "" && strings.Trim(b, "9") == "":
		return repeat(digit, n, n)
	case a[0] == b[0]:
		return sequence(literal(a[:1]), digitsBetween(a[1:], b[1:]))
	}
	first, last := rune(a[0]), rune(b[0])
	var subs []*expr
	if strings.Trim(a[1:], "0") != "" {
		subs = append(subs, sequence(literal(a[:1]), digitsBetween(a[1:], strings.Repeat("9", n-1))))
		first++
	}
	if strings.Trim(b[1:], "9") != "" {
		subs = append(subs, sequence(literal(b[:1]), digitsBetween(strings.Repeat("0", n-1), b[1:])))
		last--
	}
	if first <= last {
		subs = append(subs, sequence(class(runeRange{first, last}), repeat(digit, n-1, n-1)))
	}
	return choice(subs...)
}

// number returns the numbers that are valid by v. With bounds they have no exponent.
func (c *schemas) number(v *value, path string) (*expr, error) {
	l, err := c.readLimits(v, path)
	if err != nil {
		return nil, err
	}
	places := fractionDigits
	if m := v.get("multipleOf"); m != nil {
		r, ok := rational(m)
		if ok && r.IsInt() && r.Sign() > 0 {
			return c.integer(v, path)
		}
		if places, ok = decimalPlaces(r); !ok {
			places = fractionDigits
			if err := c.loosen("%s: multipleOf %s is not supported; whole numbers and 0.1, 0.01 and so on are", path, m); err != nil {
				return nil, err
			}
		}
	}
	if l.lo != nil || l.hi != nil {
		if err := c.spend(path, 0, rangeBytes); err != nil {
			return nil, err
		}
		return decimalsBetween(l, places)
	}
	return c.rule(fmt.Sprint("number ", places), path, func() (*expr, error) {
		fraction := optional(sequence(literal("."), repeat(digit, 1, places)))
		e := sequence(optional(literal("-")), choice(literal("0"), wholePart()), fraction)
		if places == fractionDigits {
			e = sequence(e, optional(sequence(oneOf("eE"), optional(oneOf("+-")), repeat(digit, 1, 2))))
		}
		return e, nil
	})
}

// decimalPlaces returns n if r is 1/10^n, n from 1.
func decimalPlaces(r *big.Rat) (int, bool) {
	if r == nil || r.Sign() <= 0 || !r.Num().IsInt64() || r.Num().Int64() != 1 {
		return 0, false
	}
	s := r.Denom().String()
	n := len(s) - 1
	return n, n > 0 && n <= fractionDigits && s == "1"+strings.Repeat("0", n)
}

// decimalsBetween returns the numbers within l with at most this many decimal places.
func decimalsBetween(l limits, places int) (*expr, error) {
	var subs []*expr
	zero := new(big.Rat)
	if l.lo == nil || l.lo.Sign() < 0 {
		m := limits{lo: zero, hiOpen: l.loOpen} // -0 is 0
		if l.hi != nil && l.hi.Sign() == 0 {
			m.loOpen = l.hiOpen
		}
		if l.lo != nil {
			m.hi = new(big.Rat).Neg(l.lo)
		}
		if l.hi != nil && l.hi.Sign() < 0 {
			m.lo, m.loOpen = new(big.Rat).Neg(l.hi), l.hiOpen
		}
		subs = append(subs, sequence(literal("-"), positives(m, places)))
	}
	if l.hi == nil || l.hi.Sign() >= 0 {
		m := l
		if l.lo == nil || l.lo.Sign() < 0 {
			m.lo, m.loOpen = zero, false
		}
		subs = append(subs, positives(m, places))
	}
	return choice(subs...), nil
}

// positives returns the numbers within l; its lo is at least 0.
func positives(l limits, places int) *expr {
	whole, fraction := split(l.lo)
	next := new(big.Int).Add(whole, big.NewInt(1))
	free := optional(sequence(literal("."), repeat(digit, 1, places)))
	from := func(w *big.Int, b bound) *expr { return sequence(literal(w.String()), b.fraction(places)) }
	low := bound{lo: fraction, low: true, loOpen: l.loOpen}
	if l.hi == nil {
		return choice(from(whole, low), sequence(integersBetween(next, nil), free))
	}
	top, rest := split(l.hi)
	high := bound{hi: rest, high: true, hiOpen: l.hiOpen}
	if top.Cmp(whole) == 0 {
		low.hi, low.high, low.hiOpen = high.hi, true, high.hiOpen
		return from(whole, low)
	}
	before := new(big.Int).Sub(top, big.NewInt(1))
	return choice(from(whole, low), sequence(naturals(next, before), free), from(top, high))
}

// split returns the whole part of r, at least 0, and the digits after its point without trailing zeros; 40 of those
// that never end.
func split(r *big.Rat) (*big.Int, string) {
	whole, digits, _ := strings.Cut(r.FloatString(40), ".")
	n, _ := new(big.Int).SetString(whole, 10)
	return n, strings.TrimRight(digits, "0")
}

// bound holds the digits with which those after a point are compared; low and high say whether they are equal to the
// bound so far.
type bound struct {
	lo, hi         string
	low, high      bool
	loOpen, hiOpen bool
}

// fraction returns the fractions within b, with the point, or nothing if that is within b.
func (b bound) fraction(places int) *expr {
	more := sequence(literal("."), b.digits(places, false))
	if b.mayEnd() {
		return choice(empty, more)
	}
	return more
}

// mayEnd reports whether the digits so far, with zeros after them, are within b.
func (b bound) mayEnd() bool {
	if b.low && (b.lo != "" || b.loOpen) {
		return false
	}
	return !b.high || b.hi != "" || !b.hiOpen
}

// digits returns the digits that may come next, at most this many and at least one unless end is set.
func (b bound) digits(places int, end bool) *expr {
	var subs []*expr
	if end && b.mayEnd() {
		subs = append(subs, empty)
	}
	if places == 0 {
		return choice(subs...)
	}
	if b.low && b.lo == "" && !b.loOpen {
		b.low = false
	}
	if !b.low && !b.high {
		if end {
			return repeat(digit, 0, places)
		}
		return repeat(digit, 1, places)
	}
	next := func(s string) (byte, string) {
		if s == "" {
			return '0', ""
		}
		return s[0], s[1:]
	}
	first, last := byte('0'), byte('9')
	var lo, hi string
	if b.low {
		first, lo = next(b.lo)
	}
	if b.high {
		last, hi = next(b.hi)
	}
	for d := first; d <= last; d++ {
		after := bound{lo: lo, hi: hi, low: b.low && d == first, high: b.high && d == last, loOpen: b.loOpen, hiOpen: b.hiOpen}
		subs = append(subs, sequence(literal(string(rune(d))), after.digits(places-1, true)))
	}
	return choice(subs...)
}
