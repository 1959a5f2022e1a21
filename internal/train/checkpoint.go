package train

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// A checkpoint is a header, the fixed part of the state, its trials, its weights while a rank is being trained, and a
// CRC-32C of all that, little-endian. It can be resumed only with the same samples and options.

const checkpointMagic = "PITRAIN1"

// fixed is the part of a checkpoint of fixed size.
type fixed struct {
	// Its samples and options.
	Seed                          uint64
	Embd, FF, N, Samples          uint64
	Active                        uint64
	MassRecall, Accuracy, HeldOut float64
	Type                          uint64

	Trials, Rank, Epochs, Epoch, Step, Stale uint64
	Positive, Rate1, Rate2                   float32
	Best                                     record
}

// record is a Quality in a checkpoint.
type record struct {
	MassRecall, Recall, Precision, Accuracy, PredictedShare, ActiveShare float64
	Samples                                                              uint64
}

func toRecord(q Quality) record {
	return record{q.MassRecall, q.Recall, q.Precision, q.Accuracy, q.PredictedShare, q.ActiveShare, uint64(q.Samples)}
}

func (r record) quality() Quality {
	return Quality{r.MassRecall, r.Recall, r.Precision, r.Accuracy, r.PredictedShare, r.ActiveShare, int(r.Samples)}
}

// trialRecord is a trial in a checkpoint.
type trialRecord struct {
	Rank    uint64
	Quality record
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// identity returns a checkpoint's samples and options.
func (r *run) identity() fixed {
	return fixed{
		Seed: r.o.Seed, Embd: uint64(r.embd), FF: uint64(r.s.FF), N: uint64(r.n), Samples: uint64(r.s.Len()), Active: uint64(len(r.s.Active)),
		MassRecall: r.o.MassRecall, Accuracy: r.o.Accuracy, HeldOut: r.o.HeldOut, Type: uint64(r.o.Type),
	}
}

// arrays returns the state's weights, in a checkpoint's order.
func (s *state) arrays() []*[]float32 {
	return []*[]float32{&s.w.fc1, &s.w.fc2, &s.adam1.m, &s.adam1.v, &s.adam2.m, &s.adam2.v, &s.best.fc1, &s.best.fc2}
}

// save hands a checkpoint to who asked for it.
func (r *run) save() error {
	if r.o.Save == nil {
		return nil
	}
	f := r.identity()
	f.Trials, f.Rank, f.Epochs, f.Epoch = uint64(len(r.Trials)), uint64(r.Rank), uint64(r.Epochs), uint64(r.Epoch)
	f.Step, f.Stale, f.Positive = uint64(r.Step), uint64(r.Stale), r.Positive
	f.Rate1, f.Rate2, f.Best = r.adam1.rate, r.adam2.rate, toRecord(r.bestQuality)
	size := len(checkpointMagic) + binary.Size(f) + len(r.Trials)*binary.Size(trialRecord{}) + 4
	for _, a := range r.arrays() {
		size += 4 * len(*a)
	}
	b := append(make([]byte, 0, size), checkpointMagic...)
	b, err := binary.Append(b, binary.LittleEndian, f)
	if err != nil {
		return err
	}
	for _, t := range r.Trials {
		if b, err = binary.Append(b, binary.LittleEndian, trialRecord{uint64(t.Rank), toRecord(t.Quality)}); err != nil {
			return err
		}
	}
	for _, a := range r.arrays() {
		for _, v := range *a {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	return r.o.Save(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)))
}

// resume sets the state to that of a checkpoint.
func (r *run) resume(b []byte) error {
	body, ok := bytes.CutPrefix(b, []byte(checkpointMagic))
	if !ok || len(body) < binary.Size(fixed{})+4 {
		return errors.New("checkpoint: not one of a predictor's training, or cut short; start without it")
	}
	if end := len(b) - 4; crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return errors.New("checkpoint: its checksum does not fit, it was damaged; start without it")
	}
	body = body[:len(body)-4]
	var f fixed
	n, err := binary.Decode(body, binary.LittleEndian, &f)
	if err != nil {
		return err
	}
	body = body[n:]
	made := f
	made.Trials, made.Rank, made.Epochs, made.Epoch, made.Step, made.Stale = 0, 0, 0, 0, 0, 0
	made.Positive, made.Rate1, made.Rate2, made.Best = 0, 0, 0, record{}
	if made != r.identity() {
		return errors.New("checkpoint: made with other samples or options; start without it")
	}
	floats, err := f.floats(r.layer, len(body))
	if err != nil {
		return err
	}
	for range f.Trials {
		var t trialRecord
		n, err := binary.Decode(body, binary.LittleEndian, &t)
		if err != nil {
			return err
		}
		r.Trials = append(r.Trials, trial{int(t.Rank), t.Quality.quality()})
		body = body[n:]
	}
	if f.Rank == 0 {
		return nil
	}
	r.Rank, r.Epochs, r.Epoch = int(f.Rank), int(f.Epochs), int(f.Epoch)
	r.Step, r.Stale, r.Positive = int(f.Step), int(f.Stale), f.Positive
	r.w.rank, r.best.rank, r.bestQuality = r.Rank, r.Rank, f.Best.quality()
	r.adam1.rate, r.adam2.rate = f.Rate1, f.Rate2
	for i, a := range r.arrays() {
		*a = make([]float32, floats[i])
		for j := range *a {
			(*a)[j] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*j:]))
		}
		body = body[4*len(*a):]
	}
	return nil
}

// floats returns the lengths of the next arrays, checked against the remaining bytes.
func (f *fixed) floats(l *layer, left int) ([]int, error) {
	bad := fmt.Errorf("checkpoint: %d bytes do not hold %d trials and rank %d; start without it", left, f.Trials, f.Rank)
	each := binary.Size(trialRecord{})
	if f.Trials > uint64(left/each) || f.Rank > maxFF || f.Rank%RankStep != 0 || max(f.Epochs, f.Epoch, f.Step, f.Stale) > math.MaxInt32 {
		return nil, bad
	}
	left -= int(f.Trials) * each
	if f.Rank == 0 {
		if left != 0 {
			return nil, bad
		}
		return nil, nil
	}
	one, two := int(f.Rank)*l.embd, int(f.Rank)*l.n
	if left != 4*(4*one+4*two) {
		return nil, bad
	}
	return []int{one, two, one, one, two, two, one, two}, nil
}
