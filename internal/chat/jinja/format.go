package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// percent returns Python's s % v.
func (r *render) percent(s string, v Value) (string, error) {
	p := &percentFormat{r: r, s: s, args: []Value{v}}
	if t, ok := v.(*Tuple); ok {
		p.args, p.tuple = t.items, true
	}
	p.dict, _ = v.(*Dict)
	counted := 0 // bytes
	for p.i < len(s) {
		j := strings.IndexByte(s[p.i:], '%')
		if j < 0 {
			j = len(s) - p.i
		}
		p.b.WriteString(s[p.i : p.i+j])
		if p.i += j; p.i == len(s) {
			break
		}
		p.i++
		if err := p.conversion(); err != nil {
			return "", err
		}
		if err := r.grow(p.b.Len() - counted); err != nil {
			return "", err
		}
		counted = p.b.Len()
	}
	if p.used < len(p.args) && (p.tuple || p.dict == nil && !isSequence(v)) {
		return "", typeErrorf("not all arguments converted during string formatting")
	}
	return p.b.String(), r.grow(p.b.Len() - counted)
}

// isSequence reports whether Python lets v go unused after %.
func isSequence(v Value) bool {
	switch v.(type) {
	case *List, rangeValue, *Dict, Markup:
		return true
	}
	return false
}

type percentFormat struct {
	r     *render
	s     string
	i     int
	b     strings.Builder
	args  []Value
	tuple bool
	dict  *Dict
	used  int
}

func (p *percentFormat) take() (Value, error) {
	if p.used >= len(p.args) {
		return nil, typeErrorf("not enough arguments for format string")
	}
	p.used++
	return p.args[p.used-1], nil
}

// conversion formats one value, after its %.
func (p *percentFormat) conversion() error {
	var spec formatSpec
	var value Value
	if strings.HasPrefix(p.s[p.i:], "(") {
		name, err := p.key()
		if err != nil {
			return err
		}
		i, err := p.dict.find(name)
		if err != nil || i < 0 {
			return typeErrorf("the format needs the key %s", shortRepr(name))
		}
		value = p.dict.vals[i]
	}
	spec.fill, spec.align, spec.precision = " ", '>', -1
	for ; p.i < len(p.s) && strings.IndexByte("#0- +", p.s[p.i]) >= 0; p.i++ {
		switch c := p.s[p.i]; c {
		case '#':
			spec.alternate = true
		case '0':
			spec.zero = true
		case '-':
			spec.align = '<'
		case '+':
			spec.sign = '+'
		case ' ':
			if spec.sign == 0 {
				spec.sign = ' '
			}
		}
	}
	var err error
	if spec.width, err = p.size(); err != nil {
		return err
	}
	if spec.width < 0 {
		spec.width, spec.align = -spec.width, '<'
	}
	if p.i < len(p.s) && p.s[p.i] == '.' {
		p.i++
		if spec.precision, err = p.size(); err != nil {
			return err
		}
		spec.precision = max(spec.precision, 0)
	}
	for p.i < len(p.s) && strings.IndexByte("hlL", p.s[p.i]) >= 0 {
		p.i++
	}
	if p.i == len(p.s) {
		return typeErrorf("incomplete format")
	}
	spec.verb = p.s[p.i]
	p.i++
	if spec.verb == '%' {
		p.b.WriteByte('%')
		return nil
	}
	if value == nil {
		if value, err = p.take(); err != nil {
			return err
		}
	}
	if spec.align == '<' {
		spec.zero = false
	}
	return p.write(&spec, value)
}

// key reads the (name) of a conversion.
func (p *percentFormat) key() (string, error) {
	if p.dict == nil {
		return "", typeErrorf("format requires a mapping")
	}
	depth := 0
	for j := p.i; j < len(p.s); j++ {
		switch p.s[j] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				name := p.s[p.i+1 : j]
				p.i = j + 1
				p.used = len(p.args)
				return name, nil
			}
		}
	}
	return "", typeErrorf("incomplete format key")
}

// size reads a width or precision, which a * takes from the arguments.
func (p *percentFormat) size() (int, error) {
	if p.i < len(p.s) && p.s[p.i] == '*' {
		p.i++
		v, err := p.take()
		if err != nil {
			return 0, err
		}
		n, ok := small(v)
		if !ok {
			return 0, typeErrorf("* wants int")
		}
		if n > maxWidth || n < -maxWidth {
			return 0, faultf(ErrMemory, "a width or precision is larger than %d", maxWidth)
		}
		return int(n), nil
	}
	n := 0
	for ; p.i < len(p.s) && isDecimal(p.s[p.i]); p.i++ {
		if n = 10*n + int(p.s[p.i]-'0'); n > maxWidth {
			return 0, faultf(ErrMemory, "a width or precision is larger than %d", maxWidth)
		}
	}
	return n, nil
}

func (p *percentFormat) write(spec *formatSpec, v Value) error {
	var s string
	var err error
	switch spec.verb {
	case 's', 'r', 'a':
		if spec.verb == 's' {
			s, err = p.r.str(v)
		} else {
			w := &reprWriter{writer{r: p.r, ascii: spec.verb == 'a'}}
			err = w.value(v, 0)
			s = w.b.String()
		}
		spec.zero = false
		s = truncated(s, spec.precision)
	case 'c':
		if s, err = percentChar(v); err == nil {
			spec.zero = false
		}
	case 'd', 'i', 'u':
		if f, ok := v.(float64); ok {
			v, err = truncate(f)
		}
		spec.verb = 'd'
		if err == nil {
			s, err = spec.number(v)
		}
	case 'x', 'X', 'o', 'e', 'E', 'f', 'F', 'g', 'G':
		if u, ok := v.(*Undefined); ok {
			return u.fault()
		}
		if isFloat(v) && strings.IndexByte("xXo", spec.verb) >= 0 {
			return typeErrorf("%%%c format: an integer is required, not float", spec.verb)
		}
		s, err = spec.number(v)
	default:
		return typeErrorf("unsupported format character %q", spec.verb)
	}
	if err != nil {
		return err
	}
	s, err = p.r.padded(s, int64(spec.width), " ", byte(spec.align))
	p.b.WriteString(s)
	return err
}

func percentChar(v Value) (string, error) {
	if s, ok := text(v); ok && utf8.RuneCountInString(s) == 1 {
		return s, nil
	}
	if n, ok := small(v); ok && n >= 0 && n <= utf8.MaxRune {
		return string(rune(n)), nil
	}
	return "", typeErrorf("%%c requires int or char")
}

func truncated(s string, n int) string {
	if n < 0 || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}

// truncate is int(f).
func truncate(f float64) (Value, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, typeErrorf("cannot convert float %s to integer", formatFloat(f))
	}
	i, _ := big.NewFloat(f).Int(nil)
	return normalInt(i), nil
}

// maxWidth bounds widths and precisions of formats.
const maxWidth = 100_000

// A formatSpec says how one value is formatted.
type formatSpec struct {
	fill      string
	align     rune // < > ^ =, or 0
	sign      byte // + - or space
	alternate bool // #
	zero      bool // fill with zeros after the sign
	width     int
	group     byte // , or _ between thousands
	precision int  // or -1
	verb      byte
}

// number formats a number without its fill, except for zeros after the sign.
func (f *formatSpec) number(v Value) (string, error) {
	negative, digits, prefix := false, "", ""
	switch f.verb {
	case 0, 'd', 'n', 'x', 'X', 'o', 'b':
		i, ok := integer(v)
		if !ok {
			return "", typeErrorf("a number is required, not %s", typeName(v))
		}
		negative = i.Sign() < 0
		digits, prefix = f.digits(new(big.Int).Abs(i))
		for len(digits) < f.precision {
			digits = strings.Repeat("0", f.precision-len(digits)) + digits
		}
	default:
		x, ok := float(v)
		if !ok {
			return "", typeErrorf("must be real number, not %s", typeName(v))
		}
		negative = math.Signbit(x) && !math.IsNaN(x)
		digits = f.decimals(math.Abs(x))
	}
	if f.group != 0 {
		digits = grouped(digits, f.group, f.verb)
	}
	sign := ""
	switch {
	case negative:
		sign = "-"
	case f.sign == '+' || f.sign == ' ':
		sign = string(f.sign)
	}
	sign += prefix
	if n := f.width - len(sign) - len(digits); f.zero && n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	return sign + digits, nil
}

func (f *formatSpec) digits(i *big.Int) (digits, prefix string) {
	base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'b': 2}[f.verb]
	if base == 0 {
		return i.String(), ""
	}
	digits = i.Text(base)
	if f.alternate {
		prefix = "0" + string(f.verb)
	}
	if f.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	return digits, prefix
}

// decimals formats a float that is not negative.
func (f *formatSpec) decimals(x float64) string {
	verb, precision := f.verb|0x20, f.precision
	var s string
	switch {
	case math.IsInf(x, 0):
		s = "inf"
	case math.IsNaN(x):
		s = "nan"
	case f.verb == 'r': // repr
		return formatFloat(x)
	case verb == '%'|0x20:
		s = strconv.FormatFloat(100*x, 'f', orSix(precision), 64) + "%"
	case verb == 'g':
		s = general(x, orSix(precision), f.alternate)
	default:
		s = strconv.FormatFloat(x, verb, orSix(precision), 64)
	}
	if f.verb >= 'A' && f.verb <= 'Z' {
		s = strings.ToUpper(s)
	}
	return s
}

func orSix(precision int) int {
	if precision < 0 {
		return 6
	}
	return precision
}

// general returns C's %g, with trailing zeros if keep is set.
func general(x float64, precision int, keep bool) string {
	precision = max(precision, 1)
	e := strconv.FormatFloat(x, 'e', precision-1, 64)
	mantissa, exp, _ := strings.Cut(e, "e")
	n, _ := strconv.Atoi(exp)
	if n >= -4 && n < precision {
		s := strconv.FormatFloat(x, 'f', precision-1-n, 64)
		if !keep {
			s = trimZeros(s)
		}
		return s
	}
	if !keep {
		mantissa = trimZeros(mantissa)
	}
	return mantissa + "e" + exp
}

func trimZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// grouped puts sep between groups of three digits, or four in other bases than ten.
func grouped(s string, sep, verb byte) string {
	size := 3
	if strings.IndexByte("xXob", verb) >= 0 && verb != 0 {
		size = 4
	}
	end := len(s)
	if verb != 'x' && verb != 'X' {
		if i := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
			end = i
		}
	}
	var b strings.Builder
	for i := range end {
		if i > 0 && (end-i)%size == 0 {
			b.WriteByte(sep)
		}
		b.WriteByte(s[i])
	}
	return b.String() + s[end:]
}
