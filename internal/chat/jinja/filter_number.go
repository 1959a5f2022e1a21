package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

func absFilter(_ *call, a []Value) (Value, error) {
	switch v := a[0].(type) {
	case *Undefined:
		return nil, typeErrorf("bad operand type for abs(): 'Undefined'")
	case float64:
		return math.Abs(v), nil
	}
	i, ok := integer(a[0])
	if !ok {
		return nil, typeErrorf("bad operand type for abs(): '%s'", typeName(a[0]))
	}
	return normalInt(new(big.Int).Abs(i)), nil
}

func intFilter(c *call, a []Value) (Value, error) {
	base, err := wantInt(a[2], "base", 10)
	if err != nil {
		return nil, err
	}
	var otherwise Value = int64(0)
	if a[1] != nil {
		otherwise = a[1]
	}
	switch v := a[0].(type) {
	case *Undefined:
		return nil, v.fault()
	case float64:
		if math.IsInf(v, 0) {
			return nil, typeErrorf("cannot convert float infinity to integer")
		}
		if i, err := truncate(v); err == nil {
			return i, nil
		}
		return otherwise, nil
	case string, Markup:
		s, err := c.r.read(v)
		if err != nil {
			return nil, err
		}
		return intOf(s, int(base), otherwise)
	}
	if i, ok := integer(a[0]); ok {
		return normalInt(i), nil
	}
	return otherwise, nil
}

func intOf(s string, base int, otherwise Value) (Value, error) {
	if i, ok := parseInt(s, base); ok {
		return boundedInt(i)
	}
	if f, ok := parseFloat(s); ok {
		if i, err := truncate(f); err == nil {
			return i, nil
		}
	}
	return otherwise, nil
}

// parseInt returns Python's int(s, base).
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.TrimFunc(s, isSpace)
	if base != 0 && (base < 2 || base > 36) || len(s) > 5000 {
		return nil, false
	}
	sign, digits := "", s
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, digits = s[:1], s[1:]
	}
	if prefix := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]; prefix != "" && len(digits) > 2 &&
		strings.EqualFold(digits[:2], prefix) {
		digits = strings.TrimPrefix(digits[2:], "_")
	}
	if strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil, false
	}
	if base != 0 {
		digits = strings.ReplaceAll(digits, "_", "")
	}
	if digits == "" || digits[0] == '-' || digits[0] == '+' {
		return nil, false
	}
	return new(big.Int).SetString(sign+digits, base)
}

// parseFloat returns Python's float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsAny(s, "xXpP") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func floatFilter(c *call, a []Value) (Value, error) {
	var otherwise Value = 0.0
	if a[1] != nil {
		otherwise = a[1]
	}
	if u, ok := a[0].(*Undefined); ok {
		return nil, u.fault()
	}
	if s, ok := text(a[0]); ok {
		if err := c.r.scan(len(s)); err != nil {
			return nil, err
		}
		if f, ok := parseFloat(s); ok {
			return f, nil
		}
		return otherwise, nil
	}
	if f, ok := float(a[0]); ok {
		if math.IsInf(f, 0) && !isFloat(a[0]) {
			return nil, typeErrorf("int too large to convert to float")
		}
		return f, nil
	}
	return otherwise, nil
}

func roundFilter(c *call, a []Value) (Value, error) {
	precision, err := wantInt(a[1], "precision", 0)
	if err != nil {
		return nil, err
	}
	method := "common"
	if a[2] != nil {
		method, _ = text(a[2])
	}
	if method != "common" && method != "ceil" && method != "floor" {
		return nil, typeErrorf("method must be common, ceil or floor")
	}
	if u, ok := a[0].(*Undefined); ok {
		return nil, u.fault()
	}
	f, ok := float(a[0])
	if !ok {
		return nil, typeErrorf("a number is needed to round, not %s", typeName(a[0]))
	}
	if method != "common" {
		p := math.Pow(10, float64(precision))
		if method == "ceil" {
			return (math.Ceil(f*p) + 0) / p, nil // never -0
		}
		return (math.Floor(f*p) + 0) / p, nil
	}
	if i, ok := integer(a[0]); ok {
		return roundInt(i, precision), nil
	}
	if precision > 300 || math.IsInf(f, 0) || math.IsNaN(f) {
		return f, nil
	}
	if precision < 0 {
		if precision < -308 {
			return math.Copysign(0, f), nil
		}
		p := math.Pow(10, float64(-precision))
		return math.RoundToEven(f/p) * p, nil
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
	return rounded, err
}

// roundInt rounds a whole number to a multiple of a power of ten, half to even.
func roundInt(i *big.Int, precision int64) Value {
	if precision >= 0 {
		return normalInt(i)
	}
	if precision < -5000 {
		return int64(0)
	}
	p := new(big.Int).Exp(big.NewInt(10), big.NewInt(-precision), nil)
	q, m := new(big.Int).DivMod(i, p, new(big.Int))
	switch twice := new(big.Int).Lsh(m, 1); twice.Cmp(p) {
	case 1:
		q.Add(q, big.NewInt(1))
	case 0:
		if q.Bit(0) == 1 {
			q.Add(q, big.NewInt(1))
		}
	}
	return normalInt(q.Mul(q, p))
}

func fileSizeFilter(c *call, a []Value) (Value, error) {
	f, ok := float(a[0])
	if s, isText := text(a[0]); isText {
		f, ok = parseFloat(s)
	}
	if u, undefined := a[0].(*Undefined); undefined {
		return nil, u.fault()
	}
	if !ok {
		return nil, typeErrorf("a file size must be a number, not %s", typeName(a[0]))
	}
	base, suffix, first := 1000.0, "B", "k"
	if given(a[1]) {
		base, suffix, first = 1024, "iB", "K"
	}
	if f == 1 {
		return "1 Byte", nil
	}
	if f < base {
		return fmt.Sprintf("%d Bytes", int64(f)), nil
	}
	prefixes := []string{first, "M", "G", "T", "P", "E", "Z", "Y"}
	unit := base
	for i, p := range prefixes {
		if unit *= base; f < unit || i == len(prefixes)-1 {
			return fmt.Sprintf("%.1f %s%s", base*f/unit, p, suffix), nil
		}
	}
	return nil, nil
}
