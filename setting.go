package tandem

// Setting is one value of the configuration that a server or a client has in force, and where it
// comes from. It holds no secrets: certificates and functions are shown as "on" or by their types.
type Setting struct {
	Name  string `json:"name"`  // the option that sets it, such as "WithMemory"; with a field, "WithConnections: Silence"
	Value string `json:"value"` // durations as Go prints them, sizes in bytes; "on", "off" or "none" where that says enough
	From  string `json:"from"`  // "default", "option"; on a client also "policy VERSION" or "override"
}
