//go:build !integration || !linux

package kubernetes

func podMain() {} // the tests with pods are left out
