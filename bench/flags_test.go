package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

func TestFlagsBecomeSettings(t *testing.T) {
	f := settings{modes: "shared", callers: "100", deployments: "same", works: "0", rounds: 3, duration: time.Second}
	s, to, err := f.parse("bench", strings.Fields("-systems a,b -deployment apart,two-servers -work 0,10us -rates 300,900 -json out -out folder"))
	if err != nil {
		t.Fatal(err)
	}
	if to != (output{file: "out", folder: "folder"}) || !slices.Equal(s.Systems, []string{"a", "b"}) || !slices.Equal(s.Rates, []int{300, 900}) ||
		!slices.Equal(s.Deployments, []harness.Deployment{harness.Apart, harness.TwoServers}) ||
		!slices.Equal(s.Works, []time.Duration{0, 10 * time.Microsecond}) || s.Duration != time.Second {
		t.Errorf("settings %+v, output %+v", s, to)
	}
}

func TestServersElsewhere(t *testing.T) {
	f := settings{systems: "tandem", modes: "shared", callers: "100", deployments: "elsewhere", rounds: 1}
	s, _, err := f.parse("bench", strings.Fields("-system grpc -addr a:1,b:2 -rates 500"))
	if err != nil || !slices.Equal(s.Addrs, []string{"a:1", "b:2"}) || !slices.Equal(s.Systems, []string{"grpc"}) ||
		!slices.Equal(s.Rates, []int{500}) || !slices.Equal(s.Deployments, []harness.Deployment{harness.Elsewhere}) {
		t.Errorf("settings %+v, error %v", s, err)
	}
}

func TestFlagsThatCannotBeMeant(t *testing.T) {
	for want, args := range map[string]string{
		"-rates takes": "-rates much",
		"-callers":     "-callers many",
		"-work":        "-work hard",
	} {
		f := settings{modes: "shared", callers: "100", deployments: "same", rounds: 1}
		if _, _, err := f.parse("bench", strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", args, err, want)
		}
	}
}
