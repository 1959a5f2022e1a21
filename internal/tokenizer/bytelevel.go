package tokenizer

import "unicode/utf8"

// byteRune returns the character for a byte in token texts: itself if it is printable and no space, else one from
// U+0100 on in the order of the bytes (GPT-2, encoder.py, bytes_to_unicode).
func byteRune(b byte) rune {
	switch {
	case b <= ' ':
		return 0x100 + rune(b)
	case b >= 0x7F && b <= 0xA0:
		return 0x121 + rune(b-0x7F)
	case b == 0xAD:
		return 0x143
	}
	return rune(b)
}

// runeByte undoes byteRune.
func runeByte(r rune) (byte, bool) {
	switch {
	case r >= 0x100 && r <= 0x120:
		return byte(r - 0x100), true
	case r >= 0x121 && r <= 0x142:
		return byte(r-0x121) + 0x7F, true
	case r == 0x143:
		return 0xAD, true
	}
	return byte(r), r > 0 && r <= 0xFF && byteRune(byte(r)) == r
}

// bytesOf returns the bytes of a token's text; characters that stand for no byte stay themselves.
func bytesOf(text string) string {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if b, ok := runeByte(r); ok {
			out = append(out, b)
		} else {
			out = append(out, text[i:i+n]...)
		}
		i += n
	}
	return string(out)
}

// Visible returns the text that byte-level vocabularies have for bytes.
func Visible(bytes string) string {
	out := make([]rune, len(bytes))
	for i := range len(bytes) {
		out[i] = byteRune(bytes[i])
	}
	return string(out)
}
