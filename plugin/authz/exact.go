package authz

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// exact refuses what encoding/json accepts though readers may understand it differently: names
// that differ in case, names that occur twice, null, and text after the document.
func exact(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := exactValue(d, reflect.TypeFor[Rules](), "the document"); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the end of the document")
	}
	return nil
}

// exactValue reads the value of a field.
func exactValue(d *json.Decoder, t reflect.Type, field string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch {
	case token == json.Delim('[') && t.Kind() == reflect.Slice:
		for d.More() {
			if err := exactValue(d, t.Elem(), field); err != nil {
				return err
			}
		}
		_, err := d.Token()
		return err
	case token == json.Delim('{') && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		return exactObject(d, t, field)
	case token != nil && reflect.TypeOf(token).Kind() == t.Kind() && t.Kind() != reflect.Slice:
		return nil
	}
	return fmt.Errorf("%s: want %s", field, kind(t))
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
		element, ok := elementOf(t, name)
		switch {
		case !ok:
			return fmt.Errorf("%s: unknown field %.100q", field, name)
		case seen[name]:
			return fmt.Errorf("%s: %.100q occurs twice", field, name)
		}
		seen[name] = true
		if err := exactValue(d, element, fmt.Sprintf("%.100s", name)); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// elementOf returns the type of a field.
func elementOf(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	for f := range t.Fields() {
		if known, _, _ := strings.Cut(f.Tag.Get("json"), ","); known == name {
			return f.Type, true
		}
	}
	return nil, false
}

// kind describes a type for people.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}
