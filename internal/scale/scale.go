// Package scale measures, in its tests, what many connections and long lists cost real clients and
// servers: "make scale" prints the table of the guide "beyond one cluster".
package scale
