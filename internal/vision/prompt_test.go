package vision_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/picture"
	"github.com/powerinfer-go/powerinfer/internal/vision"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
)

// bytesOf splits a text into its bytes, and puts -1 first.
func bytesOf(text string, first bool) (ids []int32, _ error) {
	if first {
		ids = append(ids, -1)
	}
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids, nil
}

func gemma3(t *testing.T) *vision.Tower {
	t.Helper()
	all := visiontest.Cases()
	i := slices.IndexFunc(all, func(c visiontest.Case) bool { return c.Name == "gemma3" })
	return open(t, all[i], devices(t)["cpu"])
}

// TestPrompt: texts and rows of pictures come in order, with the tower's text around them, and the places known without
// computing are those of the rows.
func TestPrompt(t *testing.T) {
	tower := gemma3(t)
	m := &picture.Marked{Text: "a#b##", Mark: "#", Pictures: []*picture.Image{
		picture.Blank(10, 10, [3]byte{1}), picture.Blank(20, 10, [3]byte{2}), picture.Blank(10, 10, [3]byte{1}),
	}}
	views := vision.Views{}
	laid, err := tower.Tokenize(m, views, bytesOf)
	if err != nil {
		t.Fatal(err)
	}
	rows := tower.Sizes().Rows
	want, at := []int32{-1}, []int{}
	text := func(s string) {
		ids, _ := bytesOf(s, false)
		want = append(want, ids...)
	}
	show := func() {
		text("\n\n<start_of_image>")
		at = append(at, len(want))
		want = append(want, make([]int32, rows)...)
		text("<end_of_image>\n\n")
	}
	text("a")
	show()
	text("b")
	show()
	show()
	if !slices.Equal(laid.IDs, want) {
		t.Errorf("the tokens are %v, want %v", laid.IDs, want)
	}
	var places []int
	laid.Places(func(at, n int) { places = append(places, at, n) })
	if !slices.Equal(places, []int{at[0], rows, at[1], rows, at[2], rows}) || !laid.HasPictures() || laid.Rows() != 3*rows {
		t.Errorf("pictures are at %v, want %v", places, at)
	}
	noLines := *m
	noLines.Plain = true
	short, err := tower.Tokenize(&noLines, views, bytesOf)
	if blank := 4 * len(at); err != nil || len(short.IDs) != len(laid.IDs)-blank {
		t.Errorf("without blank lines there are %d tokens, not %d: %v", len(short.IDs), len(laid.IDs)-blank, err)
	}
	laid.Prepend([]int32{7, 8, 9}, 1)
	placed, err := tower.Compute(t.Context(), laid, nil)
	if err != nil || len(placed) != 3 || len(views) != 3 {
		t.Fatalf("%d pictures: %v", len(placed), err)
	}
	for i, p := range placed {
		if p.At != at[i]+2 || len(p.Vectors) != rows {
			t.Errorf("picture %d has %d rows at %d", i, len(p.Vectors), p.At)
		}
	}
	if placed[0].Sum != placed[2].Sum || placed[0].Sum == placed[1].Sum {
		t.Error("sums do not tell pictures apart")
	}

	for _, wrong := range []picture.Marked{{Text: "no mark", Mark: "#"}, {Text: "## two", Mark: "#"}, {Text: "ab"}} {
		wrong.Pictures = m.Pictures[:1]
		if _, err := tower.Tokenize(&wrong, nil, bytesOf); !errors.Is(err, vision.ErrMarks) {
			t.Errorf("%q: %v", wrong.Text, err)
		}
	}
	var none *vision.Tower
	if _, err := none.Tokenize(m, nil, bytesOf); !errors.Is(err, vision.ErrNoTower) {
		t.Errorf("without a tower: %v", err)
	}
	plain, err := none.Tokenize(&picture.Marked{Text: "ab"}, nil, bytesOf)
	if err != nil || !slices.Equal(plain.IDs, []int32{-1, 'a', 'b'}) || plain.HasPictures() {
		t.Errorf("a text alone: %v, %v", plain, err)
	}
	if placed, err := none.Compute(t.Context(), plain, nil); placed != nil || err != nil {
		t.Errorf("a text alone has pictures: %v, %v", placed, err)
	}
}

// TestWaitingForTheTower: a request that ends does not wait for other requests' pictures.
func TestWaitingForTheTower(t *testing.T) {
	tower := gemma3(t)
	free := tower.Occupy()
	defer free()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := tower.Show(ctx, picture.Blank(10, 10, [3]byte{}))
		ended <- err
	}()
	cancel(errors.New("the client is gone"))
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("it ended with %v", err)
	}
}
