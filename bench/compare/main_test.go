package main

import (
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	list, err := engines("./pi", "", "", []string{"peer -x=/bin/peer -x 1"})
	if err != nil || len(list) != 2 || list[0].Args[1] != "bench" || list[1].Name != "peer -x" || strings.Join(list[1].Args, " ") != "/bin/peer -x 1" {
		t.Errorf("engines: %v, %v", list, err)
	}
	list, err = engines("./new", "./old", "--sparse off", nil)
	if err != nil || len(list) != 2 || list[1].Name != "old" || strings.Join(list[1].Args, " ") != "./old bench --sparse off" || strings.Join(list[0].Args, " ") != "./new bench --sparse off" {
		t.Errorf("two binaries: %v, %v", list, err)
	}
	for _, bad := range []string{"nameless", "=/bin/peer", ""} {
		if _, err := engines("x", "", "", []string{bad}); err == nil {
			t.Errorf("peer %q is accepted", bad)
		}
	}
	if got, err := threadCounts("1, 2,4"); err != nil || len(got) != 3 || got[2] != 4 {
		t.Errorf("threadCounts: %v, %v", got, err)
	}
	for _, bad := range []string{"", "0", "1,", "a"} {
		if _, err := threadCounts(bad); err == nil {
			t.Errorf("threads %q are accepted", bad)
		}
	}
}
