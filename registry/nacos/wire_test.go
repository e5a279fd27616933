package nacos

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

// A payload is the bytes that Protocol Buffers has for it.
func TestPayload(t *testing.T) {
	p := payload{kind: "T", headers: map[string]string{"k": "v"}, body: []byte("{}")}
	frame := p.frame()
	const want = "00" + "00000013" + // not compressed, 19 bytes
		"120b" + "1a0154" + "3a06" + "0a016b" + "120176" + // metadata: type T, headers k=v
		"1a04" + "12027b7d" // body: value {}
	if got := hex.EncodeToString(frame); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	got, err := readFrame(bytes.NewReader(frame))
	if err != nil || got.kind != "T" || string(got.body) != "{}" {
		t.Errorf("%+v, %v", got, err)
	}
	for end := range frame {
		if _, err := readFrame(bytes.NewReader(frame[:end])); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d bytes: %v", end, err)
		}
	}
}

// Messages that are too large, compressed or no messages are errors; unknown fields are not.
func TestFramesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"0100000000":          "compressed",
		"00ffffffff":          "limit",
		"0000000001" + "12":   "cut off",
		"0000000002" + "1205": "cut off",
		"0000000002" + "1600": "cut off",
		"0000000001" + "00":   "cut off",
		"0000000002" + "0d00": "cut off",
	} {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readFrame(bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	unknown, err := hex.DecodeString("0000000010" + "0805" + "0900000000000000ff" + "0d000000ff")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readFrame(bytes.NewReader(unknown)); err != nil {
		t.Error(err)
	}
}

// A response that is no success is an error with what Nacos said.
func TestResults(t *testing.T) {
	var to struct{ ID string }
	p := payload{body: []byte(`{"resultCode":200,"ID":"x"}`)}
	if err := p.into("R", &to); err != nil || to.ID != "x" {
		t.Error(err, to)
	}
	for body, want := range map[string]string{
		`{"resultCode":500,"errorCode":301,"message":"Connection is unregistered."}`: `R: result 500, error 301: "Connection is unregistered."`,
		`{}`:                         "result 0",
		`<html>`:                     "no JSON",
		`{"resultCode":200,"ID":[]}`: "R: the response",
	} {
		p := payload{body: []byte(body)}
		if err := p.into("R", &to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// The port of gRPC is 1000 above that of HTTP.
func TestGRPCAddress(t *testing.T) {
	if address, target, err := grpcAddress("https://[::1]:8848/nacos"); address != "[::1]:9848" || target != "https://[::1]:9848" || err != nil {
		t.Error(address, target, err)
	}
	if _, _, err := grpcAddress("http://h:65000/nacos"); err == nil || !strings.Contains(err.Error(), "leaves no room") {
		t.Error(err)
	}
}

// Whatever arrives neither panics nor is accepted with a size that it has not.
func FuzzPayload(f *testing.F) {
	p := payload{kind: "NotifySubscriberRequest", headers: map[string]string{"k": "v"}, body: []byte(`{"requestId":"1"}`)}
	f.Add(p.frame())
	f.Add([]byte("\x00\x00\x00\x00\x02\x12\x05"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := readFrame(bytes.NewReader(data)); err == nil && len(p.kind)+len(p.body) > len(data) {
			t.Fatalf("%q", data)
		}
	})
}
