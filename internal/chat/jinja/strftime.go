package jinja

import (
	"fmt"
	"strings"
	"time"
)

// layouts are Go's layouts for C's conversions, in the C locale.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06",
	'e': "_2", 'F': "2006-01-02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'r': "03:04:05 PM", 'R': "15:04",
	'S': "05", 'T': "15:04:05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006",
}

// strftime returns C's strftime. The time has no zone, as Python's datetime.now() has none: %z and %Z are empty.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		unpadded := format[i] == '-' && i+1 < len(format)
		if unpadded {
			i++
		}
		s := conversion(t, format[i])
		if unpadded {
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

func conversion(t time.Time, c byte) string {
	if l, ok := layouts[c]; ok {
		return t.Format(l)
	}
	year, week := t.ISOWeek()
	switch c {
	case '%':
		return "%"
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100)
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 'G':
		return fmt.Sprint(year)
	case 'g':
		return fmt.Sprintf("%02d", year%100)
	case 'k':
		return fmt.Sprintf("%2d", t.Hour())
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1)
	case 's':
		return fmt.Sprint(t.Unix())
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1)
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7)
	case 'V':
		return fmt.Sprintf("%02d", week)
	case 'w':
		return fmt.Sprint(int(t.Weekday()))
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7)
	case 'z', 'Z':
		return ""
	}
	return "%" + string(c)
}
