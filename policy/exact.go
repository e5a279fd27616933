package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// exact refuses what encoding/json accepts but [Schema] does not allow: names that differ in
// case, names that occur twice, missing fields, null and empty strings. So all readers
// understand a policy in the same way. Its errors name the field.
func exact(text []byte) error { return exactAs(text, reflect.TypeFor[Policy]()) }

// exactAs is exact for another type of document.
func exactAs(text []byte, document reflect.Type) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := exactValue(d, document, ""); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("policy: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("policy: text after the end of the document")
	}
	return nil
}

// exactValue reads the value of a field and checks it.
func exactValue(d *json.Decoder, t reflect.Type, field string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '[' && t.Kind() == reflect.Slice {
			return exactList(d, t, field)
		}
		if v != '{' || t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return at(field, fmt.Errorf("want %s", kind(t)))
		}
		return exactObject(d, t, field)
	case nil:
		return at(field, errors.New("null; leave it out"))
	case string:
		if v == "" {
			return at(field, errors.New("empty; leave it out"))
		}
		switch t {
		case reflect.TypeFor[time.Time]():
			return at(field, new(time.Time).UnmarshalText([]byte(v)))
		case reflect.TypeFor[Duration]():
			return at(field, new(Duration).UnmarshalText([]byte(v)))
		}
	}
	if !fits(token, t.Kind()) {
		return at(field, fmt.Errorf("%v; want %s", token, kind(t)))
	}
	return nil
}

// fits reports whether a field of a kind may have the value, by its type.
func fits(token json.Token, k reflect.Kind) bool {
	if _, ok := token.(json.Number); ok {
		return k == reflect.Int || k == reflect.Float64
	}
	return reflect.TypeOf(token).Kind() == k
}

// exactList reads the rest of a list after the opening bracket.
func exactList(d *json.Decoder, t reflect.Type, field string) error {
	for i := 0; d.More(); i++ {
		if err := exactValue(d, t.Elem(), fmt.Sprintf("%s[%d]", field, i)); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// exactObject reads the rest of a struct, or of a map by name, after the opening brace.
func exactObject(d *json.Decoder, t reflect.Type, field string) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		var element reflect.Type
		inner := below(field, name)
		if t.Kind() == reflect.Map {
			inner, element = fmt.Sprintf("%s[%.100q]", field, name), t.Elem()
		} else if f, ok := fieldNamed(t, name); ok {
			element = f.Type
		} else {
			return at(field, fmt.Errorf("unknown field %.100q", name))
		}
		if seen[name] {
			return fmt.Errorf("%s: it occurs twice", inner)
		}
		seen[name] = true
		if err := exactValue(d, element, inner); err != nil {
			return err
		}
	}
	for _, name := range required(t) {
		if !seen[name] {
			return fmt.Errorf("%s: missing", below(field, name))
		}
	}
	_, err := d.Token()
	return err
}

// fieldNamed returns the field of a struct with that name in JSON.
func fieldNamed(t reflect.Type, name string) (reflect.StructField, bool) {
	for f := range t.Fields() {
		if known, _, _ := strings.Cut(f.Tag.Get("json"), ","); known == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// required returns the names of the fields that must be present: those that are written even if
// they are zero.
func required(t reflect.Type) (names []string) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		if name, options, _ := strings.Cut(f.Tag.Get("json"), ","); options == "" {
			names = append(names, name)
		}
	}
	return names
}

func below(field, name string) string {
	if field == "" {
		return fmt.Sprintf("%.100s", name)
	}
	return fmt.Sprintf("%s.%.100s", field, name)
}

// at names the field in an error; nil stays nil.
func at(field string, err error) error {
	if err == nil || field == "" {
		return err
	}
	return fmt.Errorf("%s: %w", field, err)
}

// kind describes a type for people.
func kind(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return `a duration such as "250ms"`
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
