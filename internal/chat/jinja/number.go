package jinja

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// maxIntBits bounds whole numbers; Python prints none with more than 4300 digits either.
const maxIntBits = 14284

// normalInt returns i as an int64 if it fits.
func normalInt(i *big.Int) Value {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}

func boundedInt(i *big.Int) (Value, error) {
	if i.BitLen() > maxIntBits {
		return nil, faultf(ErrMemory, "a whole number has more than %d bits", maxIntBits)
	}
	return normalInt(i), nil
}

// integer returns v if it is a whole number of any size; bools are.
func integer(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v), true
	case *big.Int:
		return v, true
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	}
	return nil, false
}

// small returns v if it is a whole number in the range of int64.
func small(v Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// float returns a number as a float64.
func float(v Value) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// signed is +v or -v.
func signed(v Value, negative bool) (Value, error) {
	if u, ok := v.(*Undefined); ok {
		return nil, u.fault()
	}
	if f, ok := v.(float64); ok {
		if negative {
			f = -f
		}
		return f, nil
	}
	i, ok := integer(v)
	if !ok {
		return nil, typeErrorf("bad operand type for a sign: '%s'", typeName(v))
	}
	if negative {
		i = new(big.Int).Neg(i)
	}
	return normalInt(i), nil
}

// arithmetic computes a op b for two numbers; ok is false if they are not numbers.
func arithmetic(op string, a, b Value) (v Value, ok bool, err error) {
	if x, xok := a.(int64); xok {
		if y, yok := b.(int64); yok {
			if v, ok := smallArithmetic(op, x, y); ok {
				return v, true, nil
			}
		}
	}
	if x, xok := integer(a); xok {
		if y, yok := integer(b); yok && op != "/" {
			v, err := intArithmetic(op, x, y)
			return v, true, err
		}
	}
	x, xok := float(a)
	y, yok := float(b)
	if !xok || !yok {
		return nil, false, nil
	}
	if math.IsInf(x, 0) && !isFloat(a) || math.IsInf(y, 0) && !isFloat(b) {
		return nil, true, typeErrorf("int too large to convert to float")
	}
	v, err = floatArithmetic(op, x, y)
	return v, true, err
}

func isFloat(v Value) bool {
	_, ok := v.(float64)
	return ok
}

// smallArithmetic computes what needs no large numbers.
func smallArithmetic(op string, x, y int64) (Value, bool) {
	switch op {
	case "+":
		if s := x + y; (s > x) == (y > 0) {
			return s, true
		}
	case "-":
		if s := x - y; (s < x) == (y > 0) {
			return s, true
		}
	case "*":
		hi, lo := bits.Mul64(uint64(abs(x)), uint64(abs(y)))
		if x != math.MinInt64 && y != math.MinInt64 && hi == 0 && lo <= math.MaxInt64 {
			return x * y, true
		}
	case "%":
		if y > 0 {
			m := x % y
			if m < 0 {
				m += y
			}
			return m, true
		}
	}
	return nil, false
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}

func intArithmetic(op string, x, y *big.Int) (Value, error) {
	z := new(big.Int)
	switch op {
	case "+":
		return boundedInt(z.Add(x, y))
	case "-":
		return boundedInt(z.Sub(x, y))
	case "*":
		return boundedInt(z.Mul(x, y))
	case "//", "%":
		if y.Sign() == 0 {
			return nil, typeErrorf("integer division or modulo by zero")
		}
		q, m := z.QuoRem(x, y, new(big.Int))
		if m.Sign() != 0 && m.Sign() != y.Sign() {
			q.Sub(q, big.NewInt(1))
			m.Add(m, y)
		}
		if op == "%" {
			return normalInt(m), nil
		}
		return normalInt(q), nil
	case "**":
		return intPower(x, y)
	}
	return nil, typeErrorf("unknown operator %s", op)
}

func intPower(x, y *big.Int) (Value, error) {
	if y.Sign() < 0 {
		if x.Sign() == 0 {
			return nil, typeErrorf("0 cannot be raised to a negative power")
		}
		a, _ := float(normalInt(x))
		b, _ := float(normalInt(y))
		return math.Pow(a, b), nil
	}
	if x.BitLen() > 1 && (!y.IsInt64() || y.Int64() > maxIntBits || int64(x.BitLen()-1)*y.Int64() > maxIntBits) {
		return nil, faultf(ErrMemory, "a whole number has more than %d bits", maxIntBits)
	}
	if x.BitLen() <= 1 { // -1, 0 and 1: only whether the power is odd, or zero, counts
		switch {
		case y.Sign() == 0:
			return int64(1), nil
		case x.Sign() < 0 && y.Bit(0) == 0:
			return int64(1), nil
		}
		return normalInt(x), nil
	}
	return boundedInt(new(big.Int).Exp(x, y, nil))
}

func floatArithmetic(op string, x, y float64) (Value, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		if y == 0 {
			return nil, typeErrorf("division by zero")
		}
		return x / y, nil
	case "//", "%":
		if y == 0 {
			return nil, typeErrorf("float division or modulo by zero")
		}
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		if op == "%" {
			if m == 0 {
				m = math.Copysign(0, y)
			}
			return m, nil
		}
		q := (x - m) / y
		if f := math.Floor(q); q-f > 0.5 {
			return f + 1, nil
		}
		return math.Floor(q), nil
	case "**":
		if x == 0 && y < 0 {
			return nil, typeErrorf("0.0 cannot be raised to a negative power")
		}
		p := math.Pow(x, y)
		if math.IsNaN(p) && !math.IsNaN(x) && !math.IsNaN(y) {
			return nil, typeErrorf("the power of a negative number is not real")
		}
		if math.IsInf(p, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			return nil, typeErrorf("the result is too large")
		}
		return p, nil
	}
	return nil, typeErrorf("unknown operator %s", op)
}

// formatFloat returns Python's repr of a float: the shortest digits that give the same number.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exp, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exp)
	if e < -4 || e >= 16 {
		return mantissa + "e" + exp
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
