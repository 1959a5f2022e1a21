package eval

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// trialTokens are read before the first chunk, to estimate the time of all chunks, if there are worthTrial times as
// many to read.
const (
	trialTokens = 128
	worthTrial  = 16
)

// foretell reports how long count chunks will take, from the time to read the beginning of chunk, the first one. first
// and bos are evaluateChunk's.
func foretell(e *engine.Engine, chunk []int32, bos int32, first, count int, expect func(chunks int, whole time.Duration)) error {
	if expect == nil || count*len(chunk) < worthTrial*trialTokens {
		return nil
	}
	read := chunk[:min(trialTokens, len(chunk))]
	begin := time.Now()
	err := evaluateChunk(e, read, bos, first*len(read)/len(chunk), func(logits []float32, _ int32) { logSumExp(logits) })
	if err != nil {
		return err
	}
	expect(count, time.Duration(float64(time.Since(begin))/float64(len(read))*float64(count*len(chunk))))
	return nil
}
