package convert

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// piece is one entry of a SentencePiece vocabulary.
type piece struct {
	text  string
	score float32
	kind  int32 // tokenNormal and so on: the numbers are SentencePiece's own
}

// sentencePiece holds the parts of a tokenizer.model that the converter reads.
type sentencePiece struct {
	pieces      []piece
	kind        uint64 // the model's type: modelUnigram and so on
	charsmap    []byte // precompiled normalization; nil: none
	dummyPrefix bool   // a space is put before the text
	squeeze     bool   // runs of spaces become one
}

// Kinds of models, as the trainer numbers them.
const (
	modelUnigram = 1
	modelBPE     = 2
)

// field is one field of a protobuf message.
type field struct {
	num   protowire.Number
	value uint64 // of a varint or fixed32 field
	bytes []byte // of a length-delimited field
}

// eachField calls f for the fields of message b; base is b's offset in the file, for errors.
func eachField(b []byte, base int, f func(field, int) error) error {
	for at := 0; at < len(b); {
		num, typ, n := protowire.ConsumeTag(b[at:])
		if n < 0 {
			return fmt.Errorf("offset %d: %w", base+at, protowire.ParseError(n))
		}
		body := at + n
		v := field{num: num}
		switch typ {
		case protowire.VarintType:
			v.value, n = protowire.ConsumeVarint(b[body:])
		case protowire.Fixed32Type:
			var x uint32
			x, n = protowire.ConsumeFixed32(b[body:])
			v.value = uint64(x)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b[body:])
		default:
			n = protowire.ConsumeFieldValue(num, typ, b[body:])
		}
		if n < 0 {
			return fmt.Errorf("offset %d: %w", base+body, protowire.ParseError(n))
		}
		if err := f(v, base+body+n-len(v.bytes)); err != nil {
			return err
		}
		at = body + n
	}
	return nil
}

// errNotSentencePiece says that a file is something else, such as tiktoken ranks under the same name.
var errNotSentencePiece = errors.New("this is not a SentencePiece model")

// parseSentencePiece decodes a ModelProto.
//
// Source: sentencepiece_model.proto of google/sentencepiece.
func parseSentencePiece(b []byte) (*sentencePiece, error) {
	m := &sentencePiece{kind: modelUnigram, dummyPrefix: true, squeeze: true}
	const (
		fieldPieces, fieldTrainer, fieldNormalizer = 1, 2, 3
		trainerModelType                           = 3
		normalizerCharsmap                         = 2
		normalizerDummyPrefix, normalizerSqueeze   = 3, 4
	)
	err := eachField(b, 0, func(f field, at int) error {
		switch f.num {
		case fieldPieces:
			p, err := parsePiece(f.bytes, at)
			if err != nil {
				return err
			}
			if len(m.pieces) >= maxVocab {
				return fmt.Errorf("offset %d: more than %d pieces", at, maxVocab)
			}
			m.pieces = append(m.pieces, p)
		case fieldTrainer:
			return eachField(f.bytes, at, func(f field, _ int) error {
				if f.num == trainerModelType {
					m.kind = f.value
				}
				return nil
			})
		case fieldNormalizer:
			return eachField(f.bytes, at, func(f field, _ int) error {
				switch f.num {
				case normalizerCharsmap:
					m.charsmap = f.bytes
				case normalizerDummyPrefix:
					m.dummyPrefix = f.value != 0
				case normalizerSqueeze:
					m.squeeze = f.value != 0
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSentencePiece, err)
	}
	if len(m.pieces) == 0 {
		return nil, errNotSentencePiece
	}
	return m, nil
}

func parsePiece(b []byte, base int) (piece, error) {
	p := piece{kind: tokenNormal}
	err := eachField(b, base, func(f field, at int) error {
		switch f.num {
		case 1:
			p.text = string(f.bytes)
		case 2:
			p.score = math.Float32frombits(uint32(f.value))
		case 3:
			if f.value < uint64(tokenNormal) || f.value > uint64(tokenByte) {
				return fmt.Errorf("offset %d: piece type %d does not exist", at, f.value)
			}
			p.kind = int32(f.value)
		}
		return nil
	})
	switch {
	case err != nil:
		return p, err
	case !utf8.ValidString(p.text):
		return p, fmt.Errorf("offset %d: piece %q is not UTF-8", base, p.text)
	case math.IsNaN(float64(p.score)):
		return p, fmt.Errorf("offset %d: piece %q has no score", base, p.text)
	}
	return p, nil
}
