package session_test

import (
	"reflect"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// TestSampling: every field reaches the samplers' option of the same name, and the defaults are theirs.
func TestSampling(t *testing.T) {
	none, err := session.DefaultSampling().Options(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := sample.DefaultOptions(); !reflect.DeepEqual(none, want) {
		t.Errorf("the defaults are %+v, want %+v", none, want)
	}
	fields := reflect.TypeFor[session.Sampling]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		s := session.DefaultSampling()
		s.DRYMultiplier = 1 // without which there are no breakers
		before, _ := s.Options(breakers)
		switch v := reflect.ValueOf(&s).Elem().Field(i); v.Interface().(type) {
		case float32:
			v.SetFloat(0.4375)
		case int:
			v.SetInt(1)
		case uint64:
			v.SetUint(7)
		case []string:
			v.Set(reflect.ValueOf([]string{"xtc"}))
		case map[int32]float32:
			v.Set(reflect.ValueOf(map[int32]float32{3: 1}))
		default:
			t.Fatalf("%s has a type that this test does not know", name)
		}
		after, err := s.Options(breakers)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "Samplers" {
			name = "Chain"
		}
		a, b := reflect.ValueOf(before), reflect.ValueOf(after)
		for j := range a.NumField() {
			field, same := a.Type().Field(j).Name, reflect.DeepEqual(a.Field(j).Interface(), b.Field(j).Interface())
			if same == (field == name) {
				t.Errorf("%s: option %s is %v, was %v", name, field, b.Field(j), a.Field(j))
			}
		}
	}
}

func breakers(texts []string) *sample.Breakers {
	return sample.NewBreakers(texts, 2, func(id int32) []byte { return []byte{byte('a' + id)} })
}
