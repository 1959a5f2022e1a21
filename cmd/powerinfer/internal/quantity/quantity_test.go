package quantity

import (
	"testing"
	"time"
)

func TestTimeSpan(t *testing.T) {
	for want, span := range map[string][2]time.Duration{
		"about 1s":  {700 * time.Millisecond, time.Second},
		"2s to 40s": {2 * time.Second, 40 * time.Second},
	} {
		if got := TimeSpan(span[0], span[1]); got != want {
			t.Errorf("from %v to %v: %q, want %q", span[0], span[1], got, want)
		}
	}
}

func TestParameters(t *testing.T) {
	for n, want := range map[int64]string{7_241_732_096: "7.24B", 134_515_008: "135M", 1_000: "1K", 999: "999", 2_000_000_000_000: "2T"} {
		if got := Parameters(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
